"""Replaying failed jobs: FAILED becomes PENDING again, once, however many ask at the same time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from shared.channel import Channel
from shared.ids import EventId, JobId, ScopeId
from shared.job import JobReason, JobStatus
from shared.store.changes import tell_jobs
from shared.store.claim import MAY_HAVE_SENT
from shared.store.database import HotConnection
from shared.store.job_lists import JobKey
from shared.store.ledger import COUNT_DELTA


class ReplayResult(StrEnum):
    """What a replay meant for one job."""

    RETRIED = "retried"
    """It is PENDING again and due now, with fresh limits."""
    NOT_FAILED = "not_failed"
    """It is not FAILED (any more): somebody else was first, or it never was."""
    CONTENT_GONE = "content_gone"
    """There is nothing to send: its content was purged, or never rendered."""
    EXPIRED = "expired"
    """It is of no use any more, unless its expiry is extended."""
    NO_OTHER_ADDRESS = "no_other_address"
    """It was to be readdressed, and its recipient has no other address."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """``expires_at``: the new expiry, if it is later than the job's. ``readdress``: to the recipient's last address."""

    expires_at: datetime | None = None
    readdress: bool = False


@dataclass(frozen=True, slots=True)
class Replayed:
    """One job after its replay; when it was not retried, ``status`` and ``reason`` are what it is in."""

    channel: Channel
    job_id: JobId
    result: ReplayResult
    status: JobStatus
    reason: JobReason
    expires_at: datetime


FIND_JOB = """
SELECT job_id, reason
FROM outgoing
WHERE channel = $2 AND event_id = $3 AND scope_id = $1
"""


async def find_job(pg: HotConnection, scope_id: ScopeId, event_id: EventId, channel: Channel) -> JobKey | None:
    """The scope's job of this event and channel, or None."""
    row = await pg.fetchrow(FIND_JOB, scope_id, channel, event_id)
    return None if row is None else JobKey(channel, JobId(row["job_id"]), JobReason(row["reason"]))


LOCK_JOBS = """
SELECT job_id
FROM outgoing
WHERE channel = ANY ($2::text[]) AND job_id = ANY ($3::bigint[]) AND scope_id = $1
ORDER BY job_id
FOR UPDATE
"""

_JUDGED = """
WITH found AS MATERIALIZED (
  SELECT o.job_id, o.event_id, o.channel, o.status, o.reason, greatest(o.expires_at, $4) AS expires_at,
         (o.created_at AT TIME ZONE 'UTC')::date AS day,
         c.job_id IS NOT NULL OR o.job_id = ANY ($6::bigint[]) AS has_content,
         c.body ->> 'to_address' AS address, present.address AS other
  FROM outgoing o
  LEFT JOIN content c USING (job_id)
  LEFT JOIN LATERAL (
    SELECT e.recipient ->> 'email' AS address
    FROM events e
    WHERE e.scope_id = $1 AND e.recipient ->> 'id' = c.recipient_id AND e.recipient ->> 'email' IS NOT NULL
    ORDER BY e.received_at DESC, e.event_id DESC
    LIMIT 1) present ON $5 AND o.channel = 'email'
  WHERE o.channel = ANY ($2::text[]) AND o.job_id = ANY ($3::bigint[]) AND o.scope_id = $1
),
judged AS MATERIALIZED (
  SELECT *,
         CASE WHEN status <> 'FAILED' THEN 'not_failed'
              WHEN NOT has_content THEN 'content_gone'
              WHEN expires_at <= now() THEN 'expired'
              -- One that never was rendered has not been tried anywhere.
              WHEN $5 AND channel = 'email' AND reason NOT IN ('no_address', 'template_error')
               AND coalesce(other, address) = address
              THEN 'no_other_address'
              ELSE 'retried' END AS result
  FROM found
)"""

JUDGE = f"""
{_JUDGED}
SELECT result
FROM judged
"""

_RETRIED = """(
    SELECT event_id, $1::int AS scope_id, channel, 'PENDING' AS status, '' AS reason
    FROM judged
    WHERE result = 'retried') r"""

# Every limit begins anew. That an earlier copy may have gone out is not forgotten with the counts: the next claim reads
# it from the attempts, and where those say nothing of it (they could not be written), one silence stays counted.
# claim_seq moves on, so that whatever the claims before still report is old; reported_seq with it, so that nobody takes
# that step for a lost claim.
REPLAY_IF_FAILED = f"""
{_JUDGED},
replayed AS (
  UPDATE outgoing o
  SET status = 'PENDING',
      reason = '',
      detail = NULL,
      finished_at = NULL,
      expires_at = greatest(o.expires_at, $4),
      lane = o.lane | 1,
      attempts = 0,
      unanswered = 0,
      -- Not EXISTS: the planner may answer that from a hash of the whole table.
      unknowns = ((o.unknowns > 0 OR o.lost > 0) AND (
        SELECT true FROM attempts a WHERE a.job_id = o.job_id AND {MAY_HAVE_SENT} LIMIT 1) IS NULL)::int,
      lost = 0,
      claim_seq = o.claim_seq + 1,
      reported_seq = o.claim_seq + 1,
      -- A lease may last still: of a claim that was overtaken by an older one's late Delivered, which then bounced.
      due_at = now()
  WHERE o.channel = ANY ($2::text[]) AND o.job_id = ANY (ARRAY (SELECT job_id FROM judged WHERE result = 'retried'))
),
told AS ({tell_jobs(_RETRIED)}
),
readdressed AS (
  UPDATE content c
  SET body = jsonb_set(c.body::jsonb, '{{to_address}}', to_jsonb(j.other))::json
  FROM judged j
  WHERE c.job_id = j.job_id AND j.result = 'retried' AND j.other IS NOT NULL
),
delta AS (
  SELECT $1::int AS scope_id, j.day, j.channel, d.status, d.reason, d.n
  FROM judged j
  CROSS JOIN LATERAL (VALUES ('FAILED', j.reason, -1), ('PENDING', '', 1)) AS d(status, reason, n)
  WHERE j.result = 'retried'
),
counted AS ({COUNT_DELTA})
SELECT job_id, channel, result, expires_at,
       CASE result WHEN 'retried' THEN 'PENDING' ELSE status END AS status,
       CASE result WHEN 'retried' THEN '' ELSE reason END AS reason
FROM judged
ORDER BY job_id
"""


async def judge_replay(
    pg: HotConnection, scope_id: ScopeId, keys: Sequence[JobKey], options: ReplayOptions, rendered: Sequence[JobId] = ()
) -> list[ReplayResult]:
    """What ``replay_if_failed`` would answer for each of ``keys`` if the jobs ``rendered`` had content too."""
    rows = await pg.fetch(JUDGE, *_arguments(scope_id, keys, options), rendered)
    return [ReplayResult(row["result"]) for row in rows]


async def lock_jobs(pg: HotConnection, scope_id: ScopeId, keys: Sequence[JobKey]) -> None:
    """Lock the scope's jobs of ``keys``, in the order of all writers.

    A statement after it sees what others have made of these jobs and their content meanwhile.
    """
    await pg.execute(LOCK_JOBS, *_arguments(scope_id, keys, ReplayOptions())[:3])


async def replay_if_failed(
    pg: HotConnection, scope_id: ScopeId, keys: Sequence[JobKey], options: ReplayOptions
) -> list[Replayed]:
    """The scope's jobs of ``keys``, PENDING again as far as they are FAILED and can be sent, in the order of their ids.

    To be called in a transaction. Of several who ask at the same time, one finds a job FAILED.
    """
    await lock_jobs(pg, scope_id, keys)
    rows = await pg.fetch(REPLAY_IF_FAILED, *_arguments(scope_id, keys, options), [])
    return [
        Replayed(
            Channel(row["channel"]),
            JobId(row["job_id"]),
            ReplayResult(row["result"]),
            JobStatus(row["status"]),
            JobReason(row["reason"]),
            row["expires_at"],
        )
        for row in rows
    ]


async def read_clock(pg: HotConnection) -> datetime:
    """The database's own time: the one by which jobs fail."""
    now: datetime = await pg.fetchval("SELECT now()")
    return now


def _arguments(scope_id: ScopeId, keys: Sequence[JobKey], options: ReplayOptions) -> tuple[object, ...]:
    channels = sorted({key.channel for key in keys})
    return scope_id, channels, [key.job_id for key in keys], options.expires_at, options.readdress
