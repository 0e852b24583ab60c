"""The republisher's side of the events table: what nobody routed in time, and what has come due."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from shared.ids import EventId
from shared.store.database import HotConnection
from shared.store.ledger import COUNT_DELTA
from shared.store.unindexed import unindexed

LONGEST_GAP = 15
"""In multiples of the first one: 2, 4, 8, 16, then 30 minutes apart."""

LOCK_UNROUTED = """
SELECT event_id
FROM events
WHERE status = 'QUEUED'
  AND announced_at <= coalesce($3::timestamptz, now()) - $1::interval
  AND announced_at <= coalesce($3::timestamptz, now()) - $1::interval * least(2 ^ announce_count, $4)
ORDER BY announced_at
LIMIT $2
FOR UPDATE SKIP LOCKED
"""


async def lock_unrouted(
    pg: HotConnection, again_after: timedelta, limit: int, now: datetime | None = None
) -> list[EventId]:
    """Events still QUEUED so long after their last announcement that they are to be announced again, locked.

    The first time that is ``again_after``, and twice as long each time, up to fifteen times as long.
    """
    rows = await pg.fetch(LOCK_UNROUTED, again_after, limit, now, LONGEST_GAP)
    return [EventId(row["event_id"]) for row in rows]


READ_CLOCK = """
SELECT now()
"""


async def read_clock(pg: HotConnection) -> datetime:
    """The database's present instant."""
    now: datetime = await pg.fetchval(READ_CLOCK)
    return now


LOCK_QUEUED_BEFORE = """
SELECT event_id
FROM events
WHERE status = 'QUEUED' AND announced_at < $1
ORDER BY announced_at
LIMIT $2
FOR UPDATE SKIP LOCKED
"""


async def lock_queued_before(pg: HotConnection, before: datetime, limit: int) -> list[EventId]:
    """Events still QUEUED that nobody has announced since ``before``, locked."""
    rows = await pg.fetch(LOCK_QUEUED_BEFORE, before, limit)
    return [EventId(row["event_id"]) for row in rows]


MARK_ANNOUNCED_AGAIN = """
UPDATE events
SET announced_at = coalesce($2::timestamptz, now()), announce_count = least(announce_count + 1, 32767)
WHERE event_id = ANY ($1::uuid[])
"""


async def mark_announced_again(pg: HotConnection, event_ids: Sequence[EventId], now: datetime | None = None) -> None:
    """The locked events were announced once more, and that was confirmed."""
    await pg.execute(MARK_ANNOUNCED_AGAIN, event_ids, now)


MARK_ANNOUNCED = f"""
WITH free AS MATERIALIZED (
  SELECT event_id
  FROM events
  WHERE event_id = ANY ($1::uuid[]) AND {unindexed("status", "QUEUED")}
  ORDER BY event_id
  FOR UPDATE SKIP LOCKED
)
UPDATE events
SET announced_at = coalesce($2::timestamptz, now())
WHERE event_id = ANY (ARRAY (SELECT event_id FROM free))
"""


async def mark_announced_if_queued(
    pg: HotConnection, event_ids: Sequence[EventId], now: datetime | None = None
) -> None:
    """Their first announcement was confirmed only now: those not being routed yet wait from now on."""
    await pg.execute(MARK_ANNOUNCED, event_ids, now)


PROMOTE_DUE = f"""
WITH due AS MATERIALIZED (
  SELECT event_id
  FROM events
  WHERE status = 'SCHEDULED' AND send_at <= coalesce($2::timestamptz, now())
  ORDER BY send_at
  LIMIT $1
  FOR UPDATE SKIP LOCKED
),
promoted AS (
  UPDATE events
  SET status = 'QUEUED', announced_at = coalesce($2::timestamptz, now())
  WHERE event_id = ANY (ARRAY (SELECT event_id FROM due))
  RETURNING event_id, scope_id, (received_at AT TIME ZONE 'UTC')::date AS day
),
delta AS (
  SELECT scope_id, day, 'event' AS channel, 'SCHEDULED' AS status, '' AS reason, -1 AS n FROM promoted
  UNION ALL
  SELECT scope_id, day, 'event', 'QUEUED', '', 1 FROM promoted
),
counted AS ({COUNT_DELTA})
SELECT event_id
FROM promoted
"""


async def promote_due(pg: HotConnection, limit: int, now: datetime | None = None) -> list[EventId]:
    """Scheduled events whose ``send_at`` has come, at most ``limit``: QUEUED now, in one transaction."""
    rows = await pg.fetch(PROMOTE_DUE, limit, now)
    return [EventId(row["event_id"]) for row in rows]
