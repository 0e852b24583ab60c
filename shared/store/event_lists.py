"""Finding events for the lists of the API: newest first, page by page, on indexes only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

import asyncpg

from shared.event import EventStatus, Outcome
from shared.ids import EventId, ScopeId
from shared.job import JobStatus
from shared.store.database import HotConnection

FIRST_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)
LAST_INSTANT = datetime(9999, 1, 1, tzinfo=UTC)
MOST_COLLECTED = 5_000
"""As many events are looked through for what stands on no index; what occurs less often is collected first."""


@dataclass(frozen=True, slots=True)
class EventFilters:
    """Which events are wanted; None wants any. ``received_from`` belongs to the range, ``received_until`` does not."""

    event_type: str | None = None
    status: EventStatus | None = None
    outcome: Outcome | None = None
    ref: str | None = None
    recipient_id: str | None = None
    received_from: datetime = FIRST_INSTANT
    received_until: datetime = LAST_INSTANT

    @property
    def is_exact(self) -> bool:
        """Whether one index alone finds what is wanted."""
        wanted = (self.event_type, self.status, self.ref, self.recipient_id)
        one_at_most = sum(value is not None for value in wanted) <= 1
        return one_at_most and self.outcome is None and self.status is not EventStatus.ROUTED

    def suit(self, key: "EventKey") -> bool:
        """Whether ``key`` is wanted, as far as its own columns say."""
        return (
            self.event_type in (None, key.event_type)
            and self.status in (None, key.status)
            and self.ref in (None, key.ref)
            and self.recipient_id in (None, key.recipient_id)
        )


@dataclass(frozen=True, slots=True)
class EventKey:
    """Where an event stands in the list, and what it is filtered by."""

    received_at: datetime
    event_id: EventId
    event_type: str
    status: EventStatus
    ref: str | None
    recipient_id: str | None


@dataclass(frozen=True, slots=True)
class EventPlace:
    """A place in the list; what comes after it was received before, or at the same instant with a smaller id."""

    received_at: datetime
    event_id: UUID


BEFORE_ALL_IDS = UUID(int=0)
_COLUMNS = "received_at, event_id, event_type, status, ref, recipient ->> 'id' AS recipient_id"
_PAGE = """
  AND (received_at, event_id) < ($2, $3)
  AND received_at >= $4
ORDER BY received_at DESC, event_id DESC
LIMIT $5
"""

FIND_KEYS = f"""
SELECT {_COLUMNS}
FROM events
WHERE scope_id = $1 {{narrowed}}
{_PAGE}
"""
NARROWED = {
    "ref": "AND ref = $6",
    "recipient_id": "AND recipient ->> 'id' = $6",
    "event_type": "AND event_type = $6",
    # The second condition is the index's: nobody can tell it from a parameter.
    "status": "AND status = $6 AND status <> 'ROUTED'",
}
"""What each filter adds, the most selective first: one of them finds, the others sieve."""


async def find_keys(
    pg: HotConnection, scope_id: ScopeId, filters: EventFilters, after: EventPlace | None, limit: int
) -> list[EventKey]:
    """The next ``limit`` events after ``after`` that the most selective of ``filters`` lets through."""
    place = after or EventPlace(filters.received_until, BEFORE_ALL_IDS)
    arguments = (scope_id, place.received_at, place.event_id, filters.received_from, limit)
    for name, narrowed in NARROWED.items():
        value = getattr(filters, name)
        if value is not None and value is not EventStatus.ROUTED:
            return _read(await pg.fetch(FIND_KEYS.format(narrowed=narrowed), *arguments, value))
    return _read(await pg.fetch(FIND_KEYS.format(narrowed=""), *arguments))


LEFT_BY: dict[Outcome, tuple[tuple[JobStatus, ...], tuple[EventStatus, ...]]] = {
    Outcome.IN_PROGRESS: ((JobStatus.PENDING,), (EventStatus.SCHEDULED, EventStatus.QUEUED)),
    Outcome.PARTLY_SENT: ((JobStatus.FAILED, JobStatus.CANCELLED), ()),
    Outcome.FAILED: ((JobStatus.FAILED,), (EventStatus.FAILED,)),
    Outcome.SKIPPED: ((JobStatus.SKIPPED,), ()),
    Outcome.CANCELLED: ((JobStatus.CANCELLED,), (EventStatus.CANCELLED,)),
}
"""An outcome stands nowhere, but all except ``sent`` leave a job, or the event itself, in one of these statuses."""

# The order is the index's: without it the planner may read the table and hope to be done soon.
COLLECT = """
SELECT event_id
FROM (
  SELECT j.event_id
  FROM unnest($2::text[]) AS s(status)
  CROSS JOIN LATERAL (
    SELECT o.event_id
    FROM outgoing o
    WHERE o.scope_id = $1 AND o.status = s.status
    ORDER BY o.reason, o.job_id
    LIMIT $4) j
  UNION ALL
  SELECT e.event_id
  FROM unnest($3::text[]) AS s(status)
  CROSS JOIN LATERAL (
    SELECT v.event_id
    FROM events v
    WHERE v.scope_id = $1 AND v.status = s.status AND v.status <> 'ROUTED'
    ORDER BY v.received_at, v.event_id
    LIMIT $4) e) AS left_over
LIMIT $4
"""


async def collect(pg: HotConnection, scope_id: ScopeId, outcome: Outcome) -> list[EventId] | None:
    """Every event that may have ``outcome``, perhaps more than once; None when there are too many of them."""
    if outcome not in LEFT_BY:
        return None
    job_statuses, event_statuses = LEFT_BY[outcome]
    rows = await pg.fetch(COLLECT, scope_id, job_statuses, event_statuses, MOST_COLLECTED + 1)
    return None if len(rows) > MOST_COLLECTED else [EventId(row["event_id"]) for row in rows]


FIND_AMONG = f"""
SELECT {_COLUMNS}
FROM events
WHERE scope_id = $1 AND event_id = ANY ($6::uuid[])
{_PAGE}
"""


async def find_keys_among(
    pg: HotConnection,
    scope_id: ScopeId,
    filters: EventFilters,
    after: EventPlace | None,
    limit: int,
    event_ids: Sequence[EventId],
) -> list[EventKey]:
    """The next ``limit`` of ``event_ids`` after ``after``."""
    place = after or EventPlace(filters.received_until, BEFORE_ALL_IDS)
    rows = await pg.fetch(
        FIND_AMONG, scope_id, place.received_at, place.event_id, filters.received_from, limit, event_ids
    )
    return _read(rows)


JOB_STATUSES = """
SELECT event_id, array_agg(status) AS statuses
FROM outgoing
WHERE scope_id = $1 AND event_id = ANY ($2::uuid[])
GROUP BY event_id
"""


async def job_statuses(
    pg: HotConnection, scope_id: ScopeId, event_ids: Sequence[EventId]
) -> Mapping[EventId, list[str]]:
    """The statuses of each event's jobs; an event without jobs is absent."""
    rows = await pg.fetch(JOB_STATUSES, scope_id, event_ids)
    return {EventId(row["event_id"]): row["statuses"] for row in rows}


def _read(rows: Sequence[asyncpg.Record]) -> list[EventKey]:
    return [
        EventKey(
            row["received_at"],
            EventId(row["event_id"]),
            row["event_type"],
            EventStatus(row["status"]),
            row["ref"],
            row["recipient_id"],
        )
        for row in rows
    ]
