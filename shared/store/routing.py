"""The router's side of the events table: lock what is queued, mark what was routed, give up on what never can be."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.event import EventStatus
from shared.ids import EventId, ScopeId
from shared.store.database import HotConnection


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
    route_tries: int


LOCK_QUEUED = """
SELECT event_id, scope_id, event_type, recipient, payload, file_version, received_at, send_at, expires_at,
       route_tries, status
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
            row["route_tries"],
        )
        for row in rows
        if row["status"] == EventStatus.QUEUED
    ]


_FINISH = """
WITH finished AS (
  UPDATE events
  SET status = {status}, reason = {reason}, routed_at = {routed_at}
  WHERE event_id = ANY ($1::uuid[]) AND status = 'QUEUED'
  RETURNING scope_id, (received_at AT TIME ZONE 'UTC')::date AS day, status, reason
)
INSERT INTO ledger (scope_id, day, channel, status, reason, n)
SELECT scope_id, day, 'event', status, reason, sum(n)
FROM (
  SELECT scope_id, day, 'QUEUED' AS status, '' AS reason, -1 AS n FROM finished
  UNION ALL
  SELECT scope_id, day, status, reason, 1 FROM finished) AS delta
GROUP BY 1, 2, 4, 5
ORDER BY 1, 2, 4, 5
ON CONFLICT (scope_id, day, channel, status, reason) DO UPDATE SET n = ledger.n + excluded.n
"""

MARK_ROUTED = _FINISH.format(status="'ROUTED'", reason="''", routed_at="now()")


async def mark_routed(pg: HotConnection, event_ids: Sequence[EventId]) -> None:
    """Their jobs exist: the events are ROUTED. In the transaction that created the jobs."""
    await pg.execute(MARK_ROUTED, event_ids)


FAIL_ROUTING = _FINISH.format(status="'FAILED'", reason="$2", routed_at="NULL")


async def fail_if_queued(pg: HotConnection, event_ids: Sequence[EventId], reason: str) -> None:
    """The events can never be routed: FAILED with ``reason``, visible, never swept again."""
    await pg.execute(FAIL_ROUTING, event_ids, reason)


COUNT_TRY = """
UPDATE events
SET route_tries = route_tries + 1
WHERE event_id = $1 AND status = 'QUEUED'
RETURNING route_tries
"""


async def count_try(pg: HotConnection, event_id: EventId) -> int | None:
    """The number of the try that now begins, committed on its own; None when the event is no longer QUEUED."""
    tries: int | None = await pg.fetchval(COUNT_TRY, event_id)
    return tries
