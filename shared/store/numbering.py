"""Giving changes their places in the feed: one sweep at a time numbers what was committed since the last one.

The numbers of a scope have no gaps and are in the order in which they became visible: whoever has read up to one has
read everything before it. Nothing waits for a transaction that does not end, ours or another's, and the numbers are
plain figures in a table: they mean the same after a dump was restored elsewhere.
"""

from dataclasses import dataclass

from shared.store.database import HotConnection

LOCK_KEY = 7_719_246_804
"""The advisory lock that lets one sweep run at a time; any constant of our own would do."""
BEFORE_EVERYTHING = 0
"""The bound of a sweep that looks at everything."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """What one sweep did: how many rows got their numbers, and the bound below which nothing can appear any more."""

    count: int
    bound: int


# Statistics of a time when nothing was numbered would have the planner read the whole table, to find a few rows.
TRY_LOCK = """
SELECT pg_try_advisory_xact_lock($1)
FROM set_config('enable_seqscan', 'off', true)
"""

# What was numbered stays in the index for as long as an old snapshot may see it without a number: hence the bound, the
# oldest transaction that was still writing at the last sweep. Ordered by change_id, which is the order of what happened
# to one job; plus 0, because the planner would like to go through all of the primary key for that order.
NUMBER_VISIBLE = """
WITH fresh AS MATERIALIZED (
  SELECT change_id, scope_id, n
  FROM changes
  WHERE last_seq IS NULL AND written_by >= $1
  ORDER BY change_id + 0
  LIMIT $2
),
heads AS (
  INSERT INTO change_heads AS h (scope_id, last_seq)
  SELECT scope_id, sum(n)
  FROM fresh
  GROUP BY scope_id
  ORDER BY scope_id
  ON CONFLICT (scope_id) DO UPDATE SET last_seq = h.last_seq + excluded.last_seq
  RETURNING scope_id, last_seq
),
places AS MATERIALIZED (
  SELECT change_id,
         h.last_seq - sum(n) OVER (PARTITION BY scope_id) + sum(n) OVER (PARTITION BY scope_id ORDER BY change_id)
           AS last_seq
  FROM fresh
  JOIN heads h USING (scope_id)
),
numbered AS (
  UPDATE changes c
  SET last_seq = p.last_seq
  FROM places p
  WHERE c.change_id = p.change_id AND c.change_id = ANY (ARRAY(SELECT change_id FROM fresh))
)
SELECT count(*) AS count, pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS bound
FROM fresh
"""


async def number_visible(pg: HotConnection, since: int, limit: int) -> Numbered | None:
    """Number at most ``limit`` rows that were written at ``since`` (the bound of the last sweep) or later.

    To be called in a transaction of its own. None: another process is at it.
    """
    if not await pg.fetchval(TRY_LOCK, LOCK_KEY):
        return None
    # A statement of its own: it must see what the sweep before it has committed.
    row = await pg.fetchrow(NUMBER_VISIBLE, since, limit)
    assert row is not None  # noqa: S101 - a count always comes
    return Numbered(row["count"], row["bound"])


# By the order of transactions, which the index has.
UNNUMBERED_SECONDS = """
SELECT extract(epoch FROM now() - at)::float8
FROM changes
WHERE last_seq IS NULL
ORDER BY written_by
LIMIT 1
"""


async def unnumbered_seconds(pg: HotConnection) -> float:
    """How long the oldest change that has no place yet has been waiting; 0 when none waits."""
    seconds: float | None = await pg.fetchval(UNNUMBERED_SECONDS)
    return max(seconds or 0.0, 0.0)
