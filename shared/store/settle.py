"""Writing what became of claims: status, attempts and ledger in one statement, under the fence.

``claim_seq`` is the fence: it grows with every claim and every replay and never falls. A report of an older
claim is recorded and changes nothing, except that a late Delivered wins over everything but a bounce.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from shared.change import TargetEnd
from shared.channel import Channel
from shared.ids import JobId
from shared.job import JobReason, JobStatus
from shared.store.changes import tell_jobs, tell_targets
from shared.store.database import HotConnection
from shared.store.ledger import COUNT_WORK, SENT_AFTER, bucket_of


class AttemptRow(msgspec.Struct, frozen=True, gc=False):
    """One provider call to record; ``target_id`` 0 where the channel has no targets, ``error`` ≤ 1,024 characters."""

    target_id: int
    provider: str
    verdict: str
    reason: str
    code: str | None
    error: str | None
    provider_id: str | None
    started_at: datetime
    took: timedelta
    target_dead: bool
    possible_duplicate: bool


class Report(msgspec.Struct, frozen=True, gc=False):
    """What one claim ended in.

    ``status`` PENDING means "again after ``delay``" (None: at once, its due time unchanged: a release).
    ``counted``: whether the round counts against ``max_attempts``; ``unanswered`` and ``unknowns`` are the new values.
    ``delivered_any``: some target has it already, so that an expiry is SENT ``partial``.
    """

    job_id: JobId
    claim_seq: int
    status: JobStatus
    reason: JobReason
    delay: timedelta | None
    counted: bool
    unanswered: int
    unknowns: int
    delivered_any: bool
    attempts: tuple[AttemptRow, ...]


_DECIDE = f"""
WITH reported AS (
  SELECT *
  FROM unnest($2::bigint[], $3::int[], $4::text[], $5::text[], $6::interval[], $7::boolean[],
              $8::smallint[], $9::smallint[], $10::boolean[], $11::int[])
    AS r(job_id, claim_seq, status, reason, delay, counted, unanswered, unknowns, delivered_any, attempt_count)
),
-- One lock order for every writer of jobs: no deadlocks.
locked AS MATERIALIZED (
  SELECT o.job_id, o.event_id, o.scope_id, o.status, o.reason, o.claim_seq, o.reported_seq, o.expires_at,
         o.created_at, o.accepted_at, o.tried
  FROM outgoing o
  WHERE o.channel = $1 AND o.job_id = ANY ($2::bigint[])
  ORDER BY o.job_id
  FOR UPDATE
),
judged AS MATERIALIZED (
  SELECT r.job_id, r.claim_seq, r.delay, r.counted, r.unanswered, r.unknowns, r.attempt_count,
         l.event_id, l.scope_id, l.created_at, l.accepted_at, l.expires_at, l.tried,
         l.status AS old_status, l.reason AS old_reason, (l.created_at AT TIME ZONE 'UTC')::date AS day,
         CASE WHEN NOT e.expired THEN r.status WHEN e.delivered_any THEN 'SENT' ELSE 'FAILED' END AS status,
         CASE WHEN NOT e.expired THEN r.reason WHEN e.delivered_any THEN 'partial' ELSE 'expired' END AS reason,
         CASE WHEN l.status = 'PENDING' AND l.claim_seq = r.claim_seq AND l.reported_seq < r.claim_seq
              THEN 'applied'
              WHEN r.status = 'SENT' AND l.status <> 'SENT'
               AND NOT (l.status = 'FAILED' AND l.reason = 'bounced')
               -- Not EXISTS, here and below: the planner may answer that from a hash of the whole table.
               AND (SELECT true FROM attempts a
                    WHERE a.job_id = r.job_id AND a.claim_seq = r.claim_seq AND a.verdict <> 'lost'
                    LIMIT 1) IS NULL
              THEN 'late'
              ELSE 'stale' END AS act
  FROM reported r
  JOIN locked l USING (job_id)
  CROSS JOIN LATERAL (
    SELECT x.expired,
           x.expired AND (r.delivered_any OR (
             SELECT true FROM attempts a
             WHERE a.job_id = r.job_id AND a.verdict = 'delivered'
             LIMIT 1) IS NOT NULL) AS delivered_any
    FROM (SELECT r.reason = 'expired'
              -- A retry that would only come due after it has expired has failed already; what is held back may be let
              -- go at any time.
              OR (r.status = 'PENDING'
                  AND now() + CASE WHEN r.attempt_count > 0 THEN coalesce(r.delay, interval '0') ELSE interval '0' END
                   >= l.expires_at)) AS x(expired)) e
),
settled AS (
  UPDATE outgoing o
  SET status = j.status,
      reason = j.reason,
      finished_at = CASE WHEN j.status <> 'PENDING' THEN now() END,
      attempts = least(o.attempts + j.counted::int, o.max_attempts),
      unanswered = CASE WHEN j.act = 'applied' THEN j.unanswered ELSE o.unanswered END,
      unknowns = CASE WHEN j.act = 'applied' THEN j.unknowns ELSE o.unknowns END,
      tried = o.tried OR j.attempt_count > 0,
      -- What was only held back is no retry.
      lane = CASE WHEN j.status = 'PENDING' AND j.delay IS NOT NULL AND j.attempt_count > 0
             THEN o.lane | 1 ELSE o.lane END,
      reported_seq = greatest(o.reported_seq, j.claim_seq),
      due_at = CASE WHEN j.status <> 'PENDING' OR j.delay IS NULL THEN o.due_at
                    WHEN j.attempt_count > 0 THEN now() + j.delay
                    ELSE least(now() + j.delay, j.expires_at) END,
      -- Whoever claimed it meanwhile is still sending: a replay has to wait for the end of that lease.
      claimed_until = CASE WHEN j.act = 'applied' THEN '-infinity' ELSE o.claimed_until END,
      claimed_by = CASE WHEN j.act <> 'applied' THEN o.claimed_by END
  FROM judged j
  WHERE o.channel = $1 AND o.job_id = j.job_id AND j.act <> 'stale'
),
told AS ({tell_jobs("judged WHERE act <> 'stale' AND status <> 'PENDING'", "$1")}
)"""

# An applied report is the first of its claim, so that all its attempts are new. Of any other only what it recorded is
# counted: a report may come twice. A round is what was applied; whether it is the job's first the locked row knows.
_COUNT = f"""
-- Materialized: the join would go through all of judged for each attempt.
others AS MATERIALIZED (
  SELECT job_id, claim_seq, scope_id, day, act, tried,
         CASE act WHEN 'stale' THEN old_status ELSE status END AS status,
         CASE act WHEN 'stale' THEN old_reason ELSE reason END AS reason
  FROM judged
  WHERE act <> 'applied'
),
moves AS (
  SELECT scope_id, day, old_status, old_reason, status, reason,
         CASE WHEN status = 'SENT' AND reason <> 'inbox_only'
              THEN {bucket_of("accepted_at", "created_at")} END AS bucket,
         count(*)::int AS n,
         (sum(attempt_count) FILTER (WHERE act = 'applied'))::int AS attempts,
         (count(*) FILTER (WHERE act = 'applied' AND attempt_count > 0))::int AS rounds,
         (count(*) FILTER (WHERE act = 'applied' AND attempt_count > 0 AND NOT tried))::int AS tried
  FROM judged
  WHERE act <> 'stale'
  GROUP BY 1, 2, 3, 4, 5, 6, 7
),
delta AS (
  SELECT m.scope_id, m.day, $1 AS channel, d.*
  FROM moves m
  CROSS JOIN LATERAL (
    VALUES (m.old_status, m.old_reason, -m.n, 0, 0, 0, 0),
           (m.status, m.reason, m.n, coalesce(m.attempts, 0), m.rounds, m.tried, 0),
           ('{SENT_AFTER}', m.bucket, 0, 0, 0, 0, m.n)
  ) AS d(status, reason, n, attempts, rounds, tried, sent)
  WHERE d.reason IS NOT NULL
  UNION ALL
  SELECT o.scope_id, o.day, $1, o.status, o.reason, 0, (count(*) FILTER (WHERE r.is_new))::int,
         (o.act = 'late')::int, (o.act = 'late' AND NOT o.tried)::int, 0
  FROM others o
  JOIN recorded r USING (job_id, claim_seq)
  GROUP BY o.job_id, o.scope_id, o.day, o.status, o.reason, o.act, o.tried
),
counted AS ({COUNT_WORK})"""

# Each with what found it dead: of several jobs, the first.
_FORGOTTEN = """forgotten
  JOIN (SELECT DISTINCT ON (target_id) target_id, event_id FROM dead ORDER BY target_id, job_id) d USING (target_id)"""

SETTLE_IF_CLAIMED = f"""
{_DECIDE},
recorded AS (
  INSERT INTO attempts (job_id, claim_seq, target_id, number, provider, verdict, reason, code, error, provider_id,
                        started_at, took_ms, applied, late, possible_duplicate)
  SELECT t.job_id, t.claim_seq, t.target_id,
         CASE WHEN t.claim_seq = 1 THEN 1
              ELSE 1 + (SELECT count(DISTINCT a.claim_seq) FROM attempts a
                        WHERE a.job_id = t.job_id AND a.claim_seq < t.claim_seq) END,
         t.provider, t.verdict, t.reason, t.code, t.error, t.provider_id, t.started_at, t.took_ms,
         j.act <> 'stale', j.act = 'late', t.possible_duplicate
  FROM unnest($12::bigint[], $13::int[], $14::bigint[], $15::text[], $16::text[], $17::text[], $18::text[],
              $19::text[], $20::text[], $21::timestamptz[], $22::int[], $23::boolean[])
    AS t(job_id, claim_seq, target_id, provider, verdict, reason, code, error, provider_id,
         started_at, took_ms, possible_duplicate)
  JOIN judged j USING (job_id, claim_seq)
  ON CONFLICT (job_id, claim_seq, target_id) DO UPDATE
  SET provider = excluded.provider, verdict = excluded.verdict, reason = excluded.reason, code = excluded.code,
      error = excluded.error, provider_id = excluded.provider_id, started_at = excluded.started_at,
      took_ms = excluded.took_ms, applied = excluded.applied, late = true,
      possible_duplicate = excluded.possible_duplicate
  WHERE attempts.verdict = 'lost'
  -- Of a row that was there already, and is only changed, xmax is the transaction that locked it: this one.
  RETURNING job_id, claim_seq, xmax = 0 AS is_new
),
dead AS MATERIALIZED (
  SELECT d.target_id, d.started_at, j.job_id, j.event_id
  FROM unnest($12::bigint[], $13::int[], $14::bigint[], $21::timestamptz[], $24::boolean[])
    AS d(job_id, claim_seq, target_id, started_at, target_dead)
  JOIN judged j USING (job_id, claim_seq)
  WHERE $1 = 'push' AND d.target_dead AND j.act <> 'stale'
),
-- A target that was registered again since the attempt began is another one. Locked in one order, as everywhere.
forgotten AS (
  DELETE FROM push_targets
  WHERE target_id = ANY (ARRAY(
    SELECT p.target_id
    FROM dead d
    JOIN push_targets p ON p.target_id = d.target_id AND p.registered_at < d.started_at
    ORDER BY p.target_id
    FOR UPDATE OF p))
  RETURNING target_id, scope_id, recipient_id, kind, token, platform, app
),
told_of_targets AS ({tell_targets(_FORGOTTEN, TargetEnd.DEAD, "ARRAY[event_id]")}
  RETURNING event_ids[1] AS event_id
),
-- The address that a mail went to, in the one form that the list knows. Written in one order, as everywhere.
suppressed AS (
  INSERT INTO suppressions (scope_id, channel, address, reason, source, code, detail)
  SELECT DISTINCT ON (j.scope_id, c.address) j.scope_id, $1, c.address, 'rejected', 'reply', d.code, d.error
  FROM unnest($12::bigint[], $13::int[], $18::text[], $19::text[], $24::boolean[])
    AS d(job_id, claim_seq, code, error, target_dead)
  JOIN judged j USING (job_id, claim_seq)
  CROSS JOIN LATERAL (SELECT lower(body ->> 'to_address') AS address FROM content WHERE job_id = d.job_id) c
  WHERE $1 = 'email' AND d.target_dead AND j.act <> 'stale'
  ORDER BY j.scope_id, c.address
  ON CONFLICT (scope_id, channel, address) DO NOTHING
),
{_COUNT}
SELECT job_id, act, status, reason,
       CASE WHEN $1 = 'push' THEN (SELECT count(*)::int FROM told_of_targets t WHERE t.event_id = judged.event_id)
            ELSE 0 END AS forgotten
FROM judged
"""

SETTLE_WITHOUT_ATTEMPT = f"""
{_DECIDE},
recorded AS (
  SELECT job_id, claim_seq, true AS is_new
  FROM judged
  WHERE false
),
{_COUNT}
SELECT job_id, act, status, reason, 0 AS forgotten
FROM judged
"""


class Settled(msgspec.Struct, frozen=True, gc=False):
    """What a report did: ``act`` is ``applied``, ``late`` (a Delivered that came after all) or ``stale`` (nothing).

    ``forgotten``: how many push targets are no more because of it.
    """

    job_id: JobId
    act: str
    status: JobStatus
    reason: JobReason
    forgotten: int


async def settle_if_claimed(pg: HotConnection, channel: Channel, reports: Sequence[Report]) -> list[Settled]:
    """Apply ``reports`` (one per job at most) as far as their claims still stand, and record every attempt.

    Push targets that an applied report found dead are forgotten with it, mail addresses suppressed.
    """
    attempts = [(report, attempt) for report in reports for attempt in report.attempts]
    rows = await pg.fetch(
        SETTLE_IF_CLAIMED,
        *_decision_arguments(channel, reports),
        [len(report.attempts) for report in reports],
        [report.job_id for report, _ in attempts],
        [report.claim_seq for report, _ in attempts],
        [attempt.target_id for _, attempt in attempts],
        [attempt.provider for _, attempt in attempts],
        [attempt.verdict for _, attempt in attempts],
        [attempt.reason for _, attempt in attempts],
        [attempt.code for _, attempt in attempts],
        [attempt.error for _, attempt in attempts],
        [attempt.provider_id for _, attempt in attempts],
        [attempt.started_at for _, attempt in attempts],
        [int(attempt.took.total_seconds() * 1000) for _, attempt in attempts],
        [attempt.possible_duplicate for _, attempt in attempts],
        [attempt.target_dead for _, attempt in attempts],
    )
    return [Settled(*row) for row in rows]


async def settle_without_attempt(pg: HotConnection, channel: Channel, report: Report) -> list[Settled]:
    """Apply the status of ``report`` alone: the last resort when its attempt cannot be written."""
    rows = await pg.fetch(SETTLE_WITHOUT_ATTEMPT, *_decision_arguments(channel, [report]), [0])
    return [Settled(*row) for row in rows]


def _decision_arguments(channel: Channel, reports: Sequence[Report]) -> tuple[object, ...]:
    return (
        channel,
        [report.job_id for report in reports],
        [report.claim_seq for report in reports],
        [report.status for report in reports],
        [report.reason for report in reports],
        [report.delay for report in reports],
        [report.counted for report in reports],
        [report.unanswered for report in reports],
        [report.unknowns for report in reports],
        [report.delivered_any for report in reports],
    )
