"""Finding out where due jobs are: one index probe per scope and lane, whatever the backlog.

Finished jobs stay in the index for as long as an old snapshot may see them. A probe that begins behind them never
meets them: everything here has a lower bound, but for one look a minute.
"""

from collections.abc import Sequence
from datetime import timedelta

import asyncpg

from shared.channel import Channel
from shared.ids import ScopeId
from shared.job import Lane
from shared.store.claim import SUSPECT, Head
from shared.store.database import HotConnection

HEADS_LIMIT = 500
"""How many heads one look returns at most."""
RECENT = timedelta(minutes=5)
"""How far back a look goes that knows of nothing older."""
LATE = "interval '5 minutes'"
"""The SQL of how far behind a lane's oldest job its next look begins: a job may commit this long after it came due."""
LATE_BY_HABIT = "interval '10 seconds'"
"""The same of a claim. What commits later is found by the next look; claims are many, and what was finished in five
minutes under an old snapshot is much."""
EVER = timedelta(days=36_500)

# A recursive loose index scan over the scopes, in the order of the claim's index: the next scope is one probe away.
# Lanes are named instead of looked for: only then every probe has its bound in the index, on any Postgres.
DISCOVER = f"""
WITH RECURSIVE scopes AS (
  (SELECT o.scope_id
   FROM outgoing o
   WHERE o.channel = $1 AND o.status = 'PENDING' AND o.scope_id > $2 AND o.due_at >= now() - $3::interval
   ORDER BY o.scope_id, o.lane, o.due_at
   LIMIT 1)
  UNION ALL
  SELECT n.scope_id
  FROM scopes s
  CROSS JOIN LATERAL (
    SELECT o.scope_id
    FROM outgoing o
    WHERE o.channel = $1 AND o.status = 'PENDING' AND o.scope_id > s.scope_id AND o.due_at >= now() - $3::interval
    ORDER BY o.scope_id, o.lane, o.due_at
    LIMIT 1) n
)
SELECT s.scope_id, l.lane, h.low, h.suspect
FROM scopes s
CROSS JOIN unnest('{{{",".join(str(int(lane)) for lane in Lane)}}}'::smallint[]) AS l(lane)
CROSS JOIN LATERAL (
  SELECT o.due_at - {LATE_BY_HABIT} AS low, {SUSPECT} AS suspect
  FROM outgoing o
  WHERE o.channel = $1
    AND o.scope_id = s.scope_id
    AND o.lane = l.lane
    AND o.status = 'PENDING'
    AND o.due_at <= now()
    AND o.due_at >= now() - $3::interval
  ORDER BY o.due_at, o.job_id
  LIMIT 1) h
LIMIT {HEADS_LIMIT}
"""

# A planner whose statistics are of an emptier table would rather sort the whole backlog for every scope.
IN_INDEX_ORDER = """
SET LOCAL enable_sort = off;
SET LOCAL enable_bitmapscan = off;
SET LOCAL enable_seqscan = off
"""


async def discover(pg: HotConnection, channel: Channel, after: ScopeId, since: timedelta) -> list[Head]:
    """The lanes of scopes above ``after`` with jobs that came due within ``since``, at most HEADS_LIMIT, in order."""
    async with pg.transaction():
        await pg.execute(IN_INDEX_ORDER)
        return _read(await pg.fetch(DISCOVER, channel, after, since))


REVISIT = f"""
SELECT k.scope_id, k.lane, h.low, h.suspect
FROM unnest($2::int[], $3::smallint[], $4::timestamptz[]) AS k(scope_id, lane, low)
CROSS JOIN LATERAL (
  SELECT o.due_at - {LATE_BY_HABIT} AS low, {SUSPECT} AS suspect
  FROM outgoing o
  WHERE o.channel = $1
    AND o.scope_id = k.scope_id
    AND o.lane = k.lane
    AND o.status = 'PENDING'
    AND o.due_at <= now()
    AND o.due_at >= k.low - {LATE}
  ORDER BY o.due_at, o.job_id
  LIMIT 1) h
"""


async def revisit(pg: HotConnection, channel: Channel, heads: Sequence[Head]) -> list[Head]:
    """Those of ``heads`` that still have due jobs, as they are now: each looked at from a little before its ``low``."""
    return _read(
        await pg.fetch(
            REVISIT,
            channel,
            [head.scope_id for head in heads],
            [head.lane for head in heads],
            [head.low for head in heads],
        )
    )


def _read(rows: Sequence[asyncpg.Record]) -> list[Head]:
    return [Head(ScopeId(row["scope_id"]), Lane(row["lane"]), row["low"], row["suspect"]) for row in rows]
