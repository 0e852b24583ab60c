"""The router's side of the events table: lock what is queued, mark what was routed, give up on what never can be."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.change import ChangeKind
from shared.event import EventReason, EventStatus
from shared.ids import EventId, ScopeId
from shared.store.changes import tell_jobs
from shared.store.database import HotConnection
from shared.store.ledger import COUNT_DELTA
from shared.store.unindexed import unindexed


@dataclass(frozen=True, slots=True)
class QueuedEvent:
    """One event that is locked and to be routed now; ``recipient`` and ``payload`` are JSON text."""

    event_id: EventId
    scope_id: ScopeId
    event_type: str
    recipient: str
    payload: str
    file_version: int
    received_at: datetime
    send_at: datetime | None
    expires_at: datetime


LOCK_QUEUED = """
SELECT event_id, scope_id, event_type, recipient, payload, file_version, received_at, send_at, expires_at,
       status
FROM events
WHERE event_id = ANY ($1::uuid[])
ORDER BY event_id
FOR UPDATE
"""


async def lock_queued(pg: HotConnection, event_ids: Sequence[EventId]) -> list[QueuedEvent]:
    """Those of ``event_ids`` that are QUEUED, locked in id order; a second router waits here for the first."""
    rows = await pg.fetch(LOCK_QUEUED, event_ids)
    return [
        QueuedEvent(
            EventId(row["event_id"]),
            ScopeId(row["scope_id"]),
            row["event_type"],
            row["recipient"],
            row["payload"],
            row["file_version"],
            row["received_at"],
            row["send_at"],
            row["expires_at"],
        )
        for row in rows
        if row["status"] == EventStatus.QUEUED
    ]


@dataclass(frozen=True, slots=True)
class End:
    """What routing one event ended in: ROUTED, or FAILED with a reason and a ``detail`` for people."""

    event_id: EventId
    status: EventStatus
    reason: EventReason = EventReason.NONE
    detail: str | None = None


LONGEST_DETAIL = 1024


def cut_detail(text: str) -> str:
    """``text`` as a column ``detail`` takes it."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()[:LONGEST_DETAIL]


_FAILED = "finished WHERE status = 'FAILED'"

FINISH_IF_QUEUED = f"""
WITH ended AS (
  SELECT *
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS n(event_id, status, reason, detail)
),
finished AS (
  UPDATE events e
  SET status = n.status,
      reason = n.reason,
      detail = n.detail,
      routed_at = CASE WHEN n.status = 'ROUTED' THEN now() END
  FROM ended n
  WHERE e.event_id = n.event_id AND e.event_id = ANY ($1::uuid[]) AND {unindexed("e.status", "QUEUED")}
  RETURNING e.event_id, e.scope_id, (e.received_at AT TIME ZONE 'UTC')::date AS day, e.status, e.reason
),
told AS ({tell_jobs(_FAILED, "''", ChangeKind.EVENT)}
),
delta AS (
  SELECT scope_id, day, 'event' AS channel, 'QUEUED' AS status, '' AS reason, -1 AS n FROM finished
  UNION ALL
  SELECT scope_id, day, 'event', status, reason, 1 FROM finished
),
counted AS ({COUNT_DELTA})
SELECT status, count(*) AS n
FROM finished
GROUP BY status
"""


async def finish_if_queued(pg: HotConnection, ends: Sequence[End]) -> dict[EventStatus, int]:
    """The events of ``ends`` that are QUEUED reach their ends; how many each end had.

    One statement for all, last in its transaction: every router in the same scope counts on the same rows.
    """
    rows = await pg.fetch(
        FINISH_IF_QUEUED,
        [end.event_id for end in ends],
        [end.status for end in ends],
        [end.reason for end in ends],
        [end.detail for end in ends],
    )
    return {EventStatus(row["status"]): row["n"] for row in rows}


@dataclass(frozen=True, slots=True)
class Suspect:
    """An event that is QUEUED although it was announced before; ``tries``: how often it was routed alone, in vain."""

    event_id: EventId
    scope_id: ScopeId
    file_version: int
    tries: int


FIND_SUSPECTS = f"""
SELECT event_id, scope_id, file_version, route_tries
FROM events
WHERE event_id = ANY ($1::uuid[]) AND {unindexed("status", "QUEUED")}
ORDER BY route_tries, event_id
"""


async def find_suspects(pg: HotConnection, event_ids: Sequence[EventId]) -> list[Suspect]:
    """Those of ``event_ids`` that are QUEUED, the least tried first: a killer comes after its neighbours."""
    rows = await pg.fetch(FIND_SUSPECTS, event_ids)
    return [
        Suspect(EventId(row["event_id"]), ScopeId(row["scope_id"]), row["file_version"], row["route_tries"])
        for row in rows
    ]


COUNT_TRY_IF_SEEN = f"""
UPDATE events
SET route_tries = route_tries + 1
WHERE event_id = $1 AND {unindexed("status", "QUEUED")} AND route_tries = $2
RETURNING route_tries
"""


async def count_try_if_seen(pg: HotConnection, suspect: Suspect) -> bool:
    """Whether a try begins now, counted and committed on its own; False when the event is no longer as it was seen.

    A stalled database may take one count several times, long after it was given up: hence the comparison.
    """
    return await pg.fetchval(COUNT_TRY_IF_SEEN, suspect.event_id, suspect.tries) is not None
