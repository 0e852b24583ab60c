"""Finding out where due jobs are: a probe or two per scope and lane, whatever the backlog.

Finished jobs stay in the index for as long as an old snapshot may see them. A probe that begins behind them never
meets them: everything here has a lower bound, but for one look a minute.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
LONGEST = timedelta(minutes=1)
"""How long a look may take: behind an old snapshot it goes through all that was finished since."""

_TOOK = "clock_timestamp() - statement_timestamp()"


@dataclass(frozen=True, slots=True)
class Look:
    """Heads that were found, and how long Postgres took to find the last of them (nothing, when there is none).

    Our own clock would count how long our loop took to listen, which is much when there is much to do.
    """

    heads: list[Head]
    took: timedelta


_HEAD = f"""SELECT o.scope_id, o.lane, o.due_at, {SUSPECT} AS suspect
   FROM outgoing o
   WHERE o.channel = $1 AND o.status = 'PENDING' AND o.due_at >= now() - $3::interval"""
_FIRST = """
   ORDER BY o.scope_id, o.lane, o.due_at, o.job_id
   LIMIT 1"""

# A recursive loose index scan: from one head the next is one probe away, in a higher lane or in a higher scope.
# Plain comparisons, for Postgres skips over what lies before the bound only without row comparisons.
DISCOVER = f"""
WITH RECURSIVE heads AS (
  ({_HEAD} AND o.scope_id > $2 {_FIRST})
  UNION ALL
  SELECT n.*
  FROM heads h
  CROSS JOIN LATERAL (
    SELECT *
    FROM (
      ({_HEAD} AND o.scope_id = h.scope_id AND o.lane > h.lane {_FIRST})
      UNION ALL
      ({_HEAD} AND o.scope_id > h.scope_id {_FIRST})
    ) AS nearest
    LIMIT 1) n
)
SELECT scope_id, lane, due_at - {LATE_BY_HABIT} AS low, suspect, {_TOOK} AS took
FROM heads
WHERE due_at <= now()
LIMIT {HEADS_LIMIT}
"""

# A planner whose statistics are of an emptier table would rather sort the whole backlog for every scope.
IN_INDEX_ORDER = """
SET LOCAL enable_sort = off;
SET LOCAL enable_bitmapscan = off;
SET LOCAL enable_seqscan = off
"""


async def discover(pg: HotConnection, channel: Channel, after: ScopeId, since: timedelta) -> Look:
    """The lanes of scopes above ``after`` with jobs that came due within ``since``, at most HEADS_LIMIT, in order."""
    async with pg.transaction():
        await pg.execute(IN_INDEX_ORDER)
        return _read(await pg.fetch(DISCOVER, channel, after, since, timeout=LONGEST.total_seconds()))


REVISIT = f"""
SELECT k.scope_id, k.lane, h.due_at - {LATE_BY_HABIT} AS low, h.suspect, {_TOOK} AS took
FROM unnest($2::int[], $3::smallint[], $4::timestamptz[]) AS k(scope_id, lane, low)
CROSS JOIN LATERAL (
  SELECT o.due_at, {SUSPECT} AS suspect
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


async def revisit(pg: HotConnection, channel: Channel, heads: Sequence[Head]) -> Look:
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


def _read(rows: Sequence[asyncpg.Record]) -> Look:
    heads = [Head(ScopeId(row["scope_id"]), Lane(row["lane"]), row["low"], row["suspect"]) for row in rows]
    return Look(heads, rows[-1]["took"] if rows else timedelta())
