"""What waits, and for how long: read every few seconds, so that it must cost the same whatever there is."""

from dataclasses import dataclass
from datetime import timedelta

from shared.channel import Channel
from shared.store.database import HotConnection

COUNTED_UP_TO = 10_001
"""A count stops here: 10,001 stands for more than 10,000."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many wait (``COUNTED_UP_TO`` at most), and how long the oldest has been waiting; 0 when none waits."""

    count: int
    oldest: timedelta


# One probe of the claim's index per (scope, lane), and as many of its entries as are counted.
DUE_JOBS = f"""
WITH RECURSIVE heads AS (
  (SELECT scope_id, lane, due_at
   FROM outgoing
   WHERE channel = $1 AND status = 'PENDING'
   ORDER BY scope_id, lane, due_at
   LIMIT 1)
  UNION ALL
  SELECT n.scope_id, n.lane, n.due_at
  FROM heads h
  CROSS JOIN LATERAL (
    SELECT o.scope_id, o.lane, o.due_at
    FROM outgoing o
    WHERE o.channel = $1 AND o.status = 'PENDING' AND (o.scope_id, o.lane) > (h.scope_id, h.lane)
    ORDER BY o.scope_id, o.lane, o.due_at
    LIMIT 1) n
),
due AS MATERIALIZED (
  SELECT scope_id, lane, due_at
  FROM heads
  WHERE due_at <= now()
)
SELECT coalesce(now() - (SELECT min(due_at) FROM due), interval '0') AS oldest,
       (SELECT count(*)
        FROM (
          SELECT
          FROM due d
          CROSS JOIN LATERAL (
            SELECT
            FROM outgoing o
            WHERE o.channel = $1 AND o.scope_id = d.scope_id AND o.lane = d.lane AND o.status = 'PENDING'
              AND o.due_at <= now()
            ORDER BY o.due_at, o.job_id
            LIMIT {COUNTED_UP_TO}) j
          LIMIT {COUNTED_UP_TO}) counted) AS count
"""


async def due_jobs(pg: HotConnection, channel: Channel) -> Backlog:
    """The jobs of ``channel`` that are due and not finished, also those in a claim or behind a pause."""
    row = await pg.fetchrow(DUE_JOBS, channel)
    return Backlog(0, timedelta(0)) if row is None else Backlog(row["count"], row["oldest"])


# In the order of the republisher's index, which is that of their last announcement: the oldest of 10,001 may not be the
# oldest of a million, but it is hardly younger.
QUEUED_EVENTS = f"""
SELECT count(*) AS count,
       coalesce(now() - least(min(greatest(received_at, send_at)), now()), interval '0') AS oldest
FROM (
  SELECT received_at, send_at
  FROM events
  WHERE status = 'QUEUED'
  ORDER BY announced_at
  LIMIT {COUNTED_UP_TO}) queued
"""


async def queued_events(pg: HotConnection) -> Backlog:
    """The events that nobody has routed yet; one that was scheduled waits since its time came."""
    row = await pg.fetchrow(QUEUED_EVENTS)
    return Backlog(0, timedelta(0)) if row is None else Backlog(row["count"], row["oldest"])
