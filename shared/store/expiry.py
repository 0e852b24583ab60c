"""Jobs that expire while nobody claims them: what waits behind a pause ends all the same.

Whoever claims an expired job ends it himself; this is for those that are not claimed. Lock first, then end what is
locked, in one transaction: the second statement sees the attempts of everybody who held the jobs before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.channel import Channel
from shared.ids import JobId
from shared.job import JobReason, JobStatus
from shared.store.changes import tell_jobs
from shared.store.claim import number_of
from shared.store.database import HotConnection
from shared.store.ledger import COUNT_WORK, SENT_AFTER, bucket_of

# Waits for nobody: a job that somebody has in hand is being settled, or is found by the next sweep. The bound below is
# what lets the planner use this statement's own index.
LOCK_EXPIRED = """
SELECT job_id
FROM outgoing
WHERE channel = $1 AND status = 'PENDING' AND expires_at > '-infinity' AND expires_at <= now() AND claimed_until < now()
ORDER BY expires_at
LIMIT $2
FOR UPDATE SKIP LOCKED
"""


async def lock_expired(pg: HotConnection, channel: Channel, limit: int) -> list[JobId]:
    """At most ``limit`` PENDING jobs of ``channel`` whose time is up and that are in no claim, locked."""
    return [JobId(row["job_id"]) for row in await pg.fetch(LOCK_EXPIRED, channel, limit)]


@dataclass(frozen=True, slots=True)
class Expired:
    """A job that ended because its time was up: FAILED ``expired``, or SENT ``partial`` where a target has it."""

    job_id: JobId
    status: JobStatus
    reason: JobReason


# As in settle: a target that has it makes it SENT. As in claim: a claim that vanished is recorded as lost, and a
# Delivered of it may still come and win.
EXPIRE_LOCKED = f"""
WITH judged AS MATERIALIZED (
  SELECT o.job_id, o.status, o.claim_seq > o.reported_seq AS vanished,
         o.job_id = ANY (ARRAY(
           SELECT a.job_id
           FROM attempts a
           WHERE a.job_id = ANY ($2::bigint[]) AND a.verdict = 'delivered')) AS delivered_any
  FROM outgoing o
  WHERE o.channel = $1 AND o.job_id = ANY ($2::bigint[])
),
ended AS (
  UPDATE outgoing o
  SET status = CASE WHEN j.delivered_any THEN 'SENT' ELSE 'FAILED' END,
      reason = CASE WHEN j.delivered_any THEN 'partial' ELSE 'expired' END,
      finished_at = now(),
      lost = o.lost + j.vanished::int,
      reported_seq = o.claim_seq,
      claimed_until = '-infinity',
      claimed_by = NULL
  FROM judged j
  WHERE o.channel = $1 AND o.job_id = ANY ($2::bigint[]) AND o.job_id = j.job_id AND j.status = 'PENDING'
  RETURNING o.job_id, o.event_id, o.scope_id, o.status, o.reason, o.claim_seq, o.created_at, o.accepted_at, j.vanished
),
told AS ({tell_jobs("ended", "$1")}
),
recorded AS (
  INSERT INTO attempts (job_id, claim_seq, verdict, number, started_at, applied)
  SELECT job_id, claim_seq, 'lost', {number_of("ended.job_id", "ended.claim_seq")}, now(), true
  FROM ended
  WHERE vanished
  ON CONFLICT DO NOTHING
  RETURNING job_id
),
moves AS (
  SELECT e.scope_id, (e.created_at AT TIME ZONE 'UTC')::date AS day, e.status, e.reason,
         CASE WHEN e.status = 'SENT' THEN {bucket_of("e.accepted_at", "e.created_at")} END AS bucket,
         count(*)::int AS n, count(r.job_id)::int AS lost
  FROM ended e
  LEFT JOIN recorded r USING (job_id)
  GROUP BY 1, 2, 3, 4, 5
),
delta AS (
  SELECT m.scope_id, m.day, $1 AS channel, d.*
  FROM moves m
  CROSS JOIN LATERAL (
    VALUES ('PENDING', '', -m.n, 0, 0, 0, 0),
           (m.status, m.reason, m.n, m.lost, 0, 0, 0),
           ('{SENT_AFTER}', m.bucket, 0, 0, 0, 0, m.n)
  ) AS d(status, reason, n, attempts, rounds, tried, sent)
  WHERE d.reason IS NOT NULL
),
counted AS ({COUNT_WORK})
SELECT job_id, status, reason
FROM ended
ORDER BY job_id
"""


async def expire_locked(pg: HotConnection, channel: Channel, job_ids: Sequence[JobId]) -> list[Expired]:
    """End the locked jobs, counted in the ledger; a claim that had vanished is recorded as lost."""
    rows = await pg.fetch(EXPIRE_LOCKED, channel, job_ids)
    return [Expired(JobId(row["job_id"]), JobStatus(row["status"]), JobReason(row["reason"])) for row in rows]
