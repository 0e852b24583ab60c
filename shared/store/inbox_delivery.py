"""The in-app channel's whole job in one statement: claim, head, entry, settle, attempt and ledger.

Exactly once: the row lock is the claim, and the entry and the job's end are one transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from shared.channel import Channel
from shared.ids import EventId, JobId, ScopeId
from shared.job import JobReason, JobStatus, Lane
from shared.store.changes import tell_jobs
from shared.store.claim import PICK, Share, number_of, pick_arguments
from shared.store.database import HotConnection
from shared.store.ledger import COUNT_WORK, SENT_AFTER, bucket_of
from shared.store.unindexed import unindexed


@dataclass(frozen=True, slots=True)
class Entered:
    """A job that ended: SENT with its entry, or FAILED because it had expired (``expired``) or had lost its content."""

    job_id: JobId
    event_id: EventId
    scope_id: ScopeId
    lane: Lane
    claim_seq: int
    status: JobStatus
    reason: JobReason


_FINISH = f"""
jobs AS MATERIALIZED (
  SELECT o.job_id, o.event_id, o.scope_id, o.lane, o.claim_seq + 1 AS claim_seq, o.created_at, o.accepted_at,
         (o.created_at AT TIME ZONE 'UTC')::date AS day,
         o.tried, c.event_type, c.recipient_id, c.body,
         CASE WHEN o.expires_at <= now() OR c.body IS NULL THEN 'FAILED' ELSE 'SENT' END AS status,
         CASE WHEN o.expires_at <= now() THEN 'expired' WHEN c.body IS NULL THEN 'rejected' ELSE '' END AS reason
  FROM outgoing o
  LEFT JOIN content c USING (job_id)
  WHERE o.channel = $1 AND o.job_id = ANY (ARRAY(SELECT job_id FROM picked))
),
-- Heads are locked in sorted order, so that two of these statements cannot wait for each other.
heads AS (
  INSERT INTO inbox_heads AS h (scope_id, recipient_id, last_seq, unread_count)
  SELECT scope_id, recipient_id, count(*), count(*)
  FROM jobs
  WHERE status = 'SENT'
  GROUP BY 1, 2
  ORDER BY 1, 2
  ON CONFLICT (scope_id, recipient_id) DO UPDATE
  SET last_seq = h.last_seq + excluded.last_seq, unread_count = h.unread_count + excluded.unread_count
  RETURNING scope_id, recipient_id, last_seq
),
entries AS (
  INSERT INTO inbox (scope_id, recipient_id, seq, event_id, job_id, event_type, content)
  SELECT j.scope_id, j.recipient_id,
         h.last_seq + 1 - row_number() OVER (PARTITION BY j.scope_id, j.recipient_id ORDER BY j.job_id DESC),
         j.event_id, j.job_id, j.event_type, j.body
  FROM jobs j
  JOIN heads h USING (scope_id, recipient_id)
  WHERE j.status = 'SENT'
),
settled AS (
  UPDATE outgoing o
  SET status = j.status,
      reason = j.reason,
      attempts = least(o.attempts + (j.status = 'SENT')::int, o.max_attempts),
      tried = o.tried OR j.status = 'SENT',
      claim_seq = o.claim_seq + 1,
      reported_seq = o.claim_seq + 1,
      finished_at = now(),
      claimed_until = '-infinity',
      claimed_by = NULL
  FROM jobs j
  WHERE o.channel = $1 AND o.job_id = j.job_id
),
told AS ({tell_jobs("jobs", "$1")}
),
recorded AS (
  INSERT INTO attempts (job_id, claim_seq, number, provider, verdict, started_at, took_ms, applied)
  SELECT job_id, claim_seq, CASE WHEN claim_seq = 1 THEN 1 ELSE {number_of("jobs.job_id", "jobs.claim_seq")} END,
         'inbox', 'delivered', now(), 0, true
  FROM jobs
  WHERE status = 'SENT'
),
moves AS (
  SELECT scope_id, day, status, reason, count(*)::int AS n, (count(*) FILTER (WHERE NOT tried))::int AS tried,
         CASE WHEN status = 'SENT' THEN {bucket_of("accepted_at", "created_at")} END AS bucket
  FROM jobs
  GROUP BY 1, 2, 3, 4, 7
),
delta AS (
  SELECT m.scope_id, m.day, $1 AS channel, d.*
  FROM moves m
  CROSS JOIN LATERAL (
    VALUES ('PENDING', '', -m.n, 0, 0, 0, 0),
           (m.status, m.reason, m.n, 0, 0, 0, 0),
           -- One attempt each, which was a round.
           ('{SENT_AFTER}', m.bucket, 0, m.n, m.n, m.tried, m.n)
  ) AS d(status, reason, n, attempts, rounds, tried, sent)
  WHERE d.reason IS NOT NULL
),
counted AS ({COUNT_WORK})
SELECT job_id, event_id, scope_id, lane, claim_seq, status, reason
FROM jobs
ORDER BY job_id
"""

ENTER_DUE = f"""
WITH {PICK},
{_FINISH}
"""


async def enter_due(pg: HotConnection, shares: Sequence[Share]) -> list[Entered]:
    """Due in-app jobs, at most each share's quota, finished: their entries stand in the inbox.

    Per recipient, the order of ``seq`` is the order of commit.
    """
    return _read(await pg.fetch(ENTER_DUE, *pick_arguments(Channel.INAPP, shares)))


ENTER_IF_CLAIMED = f"""
WITH picked AS MATERIALIZED (
  SELECT o.job_id
  FROM outgoing o
  WHERE o.channel = $1
    AND o.job_id = $2
    AND {unindexed("o.status", "PENDING")}
    AND o.claim_seq = $3
    AND o.reported_seq < $3
  FOR UPDATE
),
{_FINISH}
"""


async def enter_if_claimed(pg: HotConnection, job_id: JobId, claim_seq: int) -> list[Entered]:
    """The one claimed job finished, or [] when its claim no longer stands."""
    return _read(await pg.fetch(ENTER_IF_CLAIMED, Channel.INAPP, job_id, claim_seq))


# Waits for a row that is locked: in-app's own loop is finishing it, and then there is nothing left to do.
ENTER_SIBLINGS = f"""
WITH picked AS MATERIALIZED (
  SELECT o.job_id
  FROM outgoing o
  WHERE o.channel = $1
    AND o.event_id = ANY ($2::uuid[])
    AND {unindexed("o.status", "PENDING")}
    AND o.claimed_until < now()
  ORDER BY o.job_id
  FOR UPDATE
),
{_FINISH}
"""


async def enter_siblings(pg: HotConnection, event_ids: Sequence[EventId]) -> list[Entered]:
    """The in-app jobs of ``event_ids`` finished now, due or not; those not PENDING, or in a claim, are left alone."""
    return _read(await pg.fetch(ENTER_SIBLINGS, Channel.INAPP, event_ids))


def _read(rows: Sequence[asyncpg.Record]) -> list[Entered]:
    return [
        Entered(
            JobId(row["job_id"]),
            EventId(row["event_id"]),
            ScopeId(row["scope_id"]),
            Lane(row["lane"]),
            row["claim_seq"],
            JobStatus(row["status"]),
            JobReason(row["reason"]),
        )
        for row in rows
    ]
