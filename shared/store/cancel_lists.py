"""Which events of one reference still have something to cancel."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.ids import EventId, ScopeId
from shared.store.database import HotConnection
from shared.store.unindexed import unindexed

_PENDING = unindexed("o.status", "PENDING")
_OPEN_JOB = f"EXISTS (SELECT FROM outgoing o WHERE o.event_id = e.event_id AND {_PENDING})"

FIND_OPEN = f"""
SELECT e.event_id
FROM events e
WHERE e.scope_id = $1
  AND e.ref = $2
  AND e.event_type = coalesce($3, e.event_type)
  AND (e.status IN ('SCHEDULED', 'QUEUED') OR (e.status = 'ROUTED' AND {_OPEN_JOB}))
ORDER BY e.received_at, e.event_id
LIMIT $4
"""


async def find_open(
    pg: HotConnection, scope_id: ScopeId, ref: str, event_type: str | None, limit: int
) -> list[EventId]:
    """The oldest ``limit`` events with this ``ref`` (and type) that are not routed, or have a job to be sent."""
    rows = await pg.fetch(FIND_OPEN, scope_id, ref, event_type, limit)
    return [EventId(row["event_id"]) for row in rows]


@dataclass(frozen=True, slots=True)
class Open:
    """How much there is to cancel of some events: how many of them, with how many jobs, and how many are claimed."""

    event_count: int
    job_count: int
    claimed_count: int


COUNT_OPEN = f"""
SELECT count(*) FILTER (WHERE o.claimed_until < now()) AS free, count(*) FILTER (WHERE o.claimed_until >= now()) AS held
FROM outgoing o
WHERE o.scope_id = $1 AND o.event_id = ANY ($2::uuid[]) AND {_PENDING}
"""


async def count_open(pg: HotConnection, scope_id: ScopeId, event_ids: Sequence[EventId]) -> Open:
    """What cancelling ``event_ids`` would come upon."""
    row = await pg.fetchrow(COUNT_OPEN, scope_id, event_ids)
    return Open(len(event_ids), row["free"], row["held"]) if row is not None else Open(0, 0, 0)


ANY_OF_REF = """
SELECT e.status = 'CANCELLED' OR EXISTS (
         SELECT FROM outgoing o WHERE o.event_id = e.event_id AND o.status = 'CANCELLED') AS cancelled
FROM events e
WHERE e.scope_id = $1 AND e.ref = $2 AND e.event_type = coalesce($3, e.event_type)
ORDER BY 1 DESC
LIMIT 1
"""


async def was_cancelled(pg: HotConnection, scope_id: ScopeId, ref: str, event_type: str | None) -> bool | None:
    """Whether an event with this ``ref`` (and type) or a job of one is CANCELLED; None when there is no event."""
    found: bool | None = await pg.fetchval(ANY_OF_REF, scope_id, ref, event_type)
    return found
