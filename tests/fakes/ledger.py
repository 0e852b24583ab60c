"""What the ledger must say, from the tables themselves."""

from shared.store.database import Database


async def ledger_mistakes(database: Database) -> list[tuple[object, ...]]:
    """Where the ledger and the tables disagree: [] when every count is right."""
    async with database.hot() as pg:
        rows = [await pg.fetch(f"{both} {DIFFERENCE}") for both in (STATES, WORK, TIMES)]
    return [tuple(row) for one in rows for row in one]


DIFFERENCE = "(TABLE counted EXCEPT TABLE told) UNION ALL (TABLE told EXCEPT TABLE counted)"
STATES = """
WITH counted AS (
  SELECT scope_id, channel, status, reason, count(*) AS n FROM outgoing GROUP BY 1, 2, 3, 4
  UNION ALL
  SELECT scope_id, 'event', status, reason, count(*) FROM events GROUP BY 1, 3, 4),
told AS (
  SELECT scope_id, channel, status, reason, sum(n) AS n FROM ledger GROUP BY 1, 2, 3, 4 HAVING sum(n) <> 0)
"""
"""How many events and jobs are in which status."""
WORK = """
WITH applied AS (
  SELECT o.scope_id, o.channel, a.job_id, CASE WHEN a.applied AND a.verdict <> 'lost' THEN a.claim_seq END AS round
  FROM attempts a
  JOIN outgoing o USING (job_id)),
counted AS (
  SELECT scope_id, channel, count(*) AS attempts, count(DISTINCT (job_id, round)) FILTER (WHERE round > 0) AS rounds,
         count(DISTINCT job_id) FILTER (WHERE round > 0) AS tried
  FROM applied
  GROUP BY 1, 2),
told AS (
  SELECT scope_id, channel, sum(attempts) AS attempts, sum(rounds) AS rounds, sum(tried) AS tried
  FROM ledger
  GROUP BY 1, 2
  HAVING sum(attempts) > 0)
"""
"""Attempts, the rounds that were applied, and the jobs that had one."""
TIMES = """
WITH counted AS (
  SELECT scope_id, channel, count(*) AS sent,
         floor(ln(greatest(extract(epoch FROM finished_at - coalesce(accepted_at, created_at))::float8 * 1000, 1))
               / ln(1.1::float8))::int::text AS bucket
  FROM outgoing
  WHERE status = 'SENT' AND reason <> 'inbox_only'
  GROUP BY 1, 2, 4),
told AS (
  SELECT scope_id, channel, sum(sent) AS sent, reason AS bucket
  FROM ledger
  WHERE status = 'sent_after'
  GROUP BY 1, 2, 4
  HAVING sum(sent) <> 0)
"""
"""How long it took to SENT, in buckets."""
