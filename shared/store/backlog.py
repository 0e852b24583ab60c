"""What waits, and for how long: read every few seconds, so that it must cost the same whatever there is.

As in discovery, what is finished stays in the index for as long as an old snapshot may see it. So every look has a
lower bound, taken from the look before, but for one a minute.
"""

from dataclasses import dataclass
from datetime import timedelta

import asyncpg

from shared.channel import Channel
from shared.job import Lane
from shared.store.database import HotConnection

COUNTED_UP_TO = 10_001
"""A count stops here: 10,001 stands for more than 10,000."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many wait (``COUNTED_UP_TO`` at most), and how long the oldest has been waiting; 0 when none waits.

    ``reach``: how far back the index had something to tell, for the bound of the next look.
    """

    count: int
    oldest: timedelta
    reach: timedelta


# The claim's index, from scope to scope; lanes are named so that every probe has its bound in the index.
DUE_JOBS = f"""
WITH RECURSIVE scopes AS (
  (SELECT o.scope_id
   FROM outgoing o
   WHERE o.channel = $1 AND o.status = 'PENDING' AND o.scope_id > 0 AND o.due_at >= now() - $2::interval
   ORDER BY o.scope_id, o.lane, o.due_at
   LIMIT 1)
  UNION ALL
  SELECT n.scope_id
  FROM scopes s
  CROSS JOIN LATERAL (
    SELECT o.scope_id
    FROM outgoing o
    WHERE o.channel = $1 AND o.status = 'PENDING' AND o.scope_id > s.scope_id AND o.due_at >= now() - $2::interval
    ORDER BY o.scope_id, o.lane, o.due_at
    LIMIT 1) n
),
heads AS MATERIALIZED (
  SELECT s.scope_id, l.lane, h.due_at
  FROM scopes s
  CROSS JOIN unnest('{{{",".join(str(int(lane)) for lane in Lane)}}}'::smallint[]) AS l(lane)
  CROSS JOIN LATERAL (
    SELECT o.due_at
    FROM outgoing o
    WHERE o.channel = $1
      AND o.scope_id = s.scope_id
      AND o.lane = l.lane
      AND o.status = 'PENDING'
      AND o.due_at <= now()
      AND o.due_at >= now() - $2::interval
    ORDER BY o.due_at, o.job_id
    LIMIT 1) h
),
counted AS (
  SELECT count(*) AS n
  FROM (
    SELECT
    FROM heads h
    CROSS JOIN LATERAL (
      SELECT
      FROM outgoing o
      WHERE o.channel = $1
        AND o.scope_id = h.scope_id
        AND o.lane = h.lane
        AND o.status = 'PENDING'
        AND o.due_at <= now()
        AND o.due_at >= h.due_at
      ORDER BY o.due_at, o.job_id
      LIMIT {COUNTED_UP_TO}) j
    LIMIT {COUNTED_UP_TO}) due
)
SELECT n AS count, now() - h.due_at AS oldest, now() - h.due_at AS reach
FROM counted, (SELECT min(due_at) AS due_at FROM heads) h
"""


async def due_jobs(pg: HotConnection, channel: Channel, since: timedelta) -> Backlog:
    """The unfinished jobs of ``channel`` that came due within ``since``, also those in a claim or behind a pause."""
    return _read(await pg.fetchrow(DUE_JOBS, channel, since))


# In the order of the republisher's index, which is that of their last announcement: the oldest of 10,001 may not be the
# oldest of a million, but it is hardly younger.
QUEUED_EVENTS = f"""
SELECT count(*) AS count,
       now() - least(min(greatest(received_at, send_at)), now()) AS oldest,
       now() - min(announced_at) AS reach
FROM (
  SELECT received_at, send_at, announced_at
  FROM events
  WHERE status = 'QUEUED' AND announced_at >= now() - $1::interval
  ORDER BY announced_at
  LIMIT {COUNTED_UP_TO}) queued
"""


async def queued_events(pg: HotConnection, since: timedelta) -> Backlog:
    """The events that nobody has routed yet, announced within ``since``; a scheduled one waits since its time came."""
    return _read(await pg.fetchrow(QUEUED_EVENTS, since))


def _read(row: asyncpg.Record | None) -> Backlog:
    if row is None or row["reach"] is None:
        return Backlog(0, timedelta(0), timedelta(0))
    return Backlog(row["count"], row["oldest"], row["reach"])
