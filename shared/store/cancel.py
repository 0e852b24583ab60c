"""Cancelling: what is not in a worker's hands ends now, and what can no longer be stopped says so.

Everything in one transaction, in the order of all writers: the events in id order, their jobs in id order, then the
ledger's rows, those of jobs before those of events, as the router has it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from shared.change import ChangeKind
from shared.channel import Channel
from shared.event import EventStatus
from shared.ids import EventId, ScopeId
from shared.job import JobReason, JobStatus
from shared.store.changes import tell_jobs
from shared.store.claim import MAY_HAVE_SENT, number_of
from shared.store.database import HotConnection
from shared.store.ledger import COUNT_DELTA, COUNT_WORK


class CancelResult(StrEnum):
    """What a cancel meant for one job."""

    CANCELLED = "cancelled"
    """It will not be sent: by this cancel, or by an earlier one."""
    CLAIMED = "claimed"
    """A worker has it in hand at this moment; its claim is left alone."""
    FINISHED = "finished"
    """It was over before; its status says how."""


@dataclass(frozen=True, slots=True)
class CancelledJob:
    """One job after the cancel. ``may_have_been_sent``: a claim was lost, an answer never came, or a target has it."""

    channel: Channel
    result: CancelResult
    status: JobStatus
    reason: JobReason
    may_have_been_sent: bool


@dataclass(frozen=True, slots=True)
class CancelledEvent:
    """One event after the cancel, with its jobs; ``fresh``: this cancel ended the event itself or one of its jobs."""

    event_id: EventId
    status: EventStatus
    fresh: bool
    jobs: tuple[CancelledJob, ...]

    @property
    def is_cancelled(self) -> bool:
        """Whether something of it is cancelled, now or since earlier."""
        return self.status is EventStatus.CANCELLED or any(job.result is CancelResult.CANCELLED for job in self.jobs)


LOCK_EVENTS = """
SELECT event_id, status
FROM events
WHERE scope_id = $1 AND event_id = ANY ($2::uuid[])
ORDER BY event_id
FOR UPDATE
"""

LOCK_JOBS = """
SELECT job_id
FROM outgoing
WHERE scope_id = $1 AND event_id = ANY ($2::uuid[])
ORDER BY job_id
FOR UPDATE
"""

# What is cancelled of ``found``, to be told of.
_CANCELLED = """(
    SELECT event_id, $1::int AS scope_id, {channel} AS channel, 'CANCELLED' AS status, '' AS reason
    FROM found
    WHERE {condition}) c"""

# A claim that vanished is written down here, as the next claim would have done: it can still come back Delivered.
CANCEL_IF_UNCLAIMED = f"""
WITH found AS MATERIALIZED (
  SELECT job_id, event_id, channel, status, reason, claim_seq, reported_seq, created_at,
         status = 'PENDING' AND claimed_until < now() AS free,
         -- Not EXISTS: the planner may answer that from a hash of the whole table.
         status = 'SENT' OR claim_seq > reported_seq OR lost > 0 OR unknowns > 0 OR (
           SELECT true
           FROM attempts a
           WHERE a.job_id = o.job_id AND (a.verdict = 'delivered' OR {MAY_HAVE_SENT})
           LIMIT 1) IS NOT NULL AS may_be_sent
  FROM outgoing o
  WHERE scope_id = $1 AND event_id = ANY ($2::uuid[])
),
cancelled AS (
  UPDATE outgoing
  SET status = 'CANCELLED',
      finished_at = now(),
      lost = least(lost + (claim_seq > reported_seq)::int, 32767),
      reported_seq = claim_seq,
      claimed_until = '-infinity',
      claimed_by = NULL
  WHERE channel = ANY ($3::text[]) AND job_id = ANY (ARRAY (SELECT job_id FROM found WHERE free))
),
told AS ({tell_jobs(_CANCELLED.format(channel="channel", condition="free"))}
),
vanished AS (
  INSERT INTO attempts (job_id, claim_seq, verdict, number, started_at, applied)
  SELECT job_id, claim_seq, 'lost', {number_of("found.job_id", "found.claim_seq")}, now(), true
  FROM found
  WHERE free AND claim_seq > reported_seq
  ON CONFLICT DO NOTHING
  RETURNING job_id
),
moves AS (
  SELECT (f.created_at AT TIME ZONE 'UTC')::date AS day, f.channel, count(*)::int AS n, count(v.job_id)::int AS vanished
  FROM found f
  LEFT JOIN vanished v USING (job_id)
  WHERE f.free
  GROUP BY 1, 2
),
delta AS (
  SELECT $1::int AS scope_id, m.day, m.channel, d.*, 0 AS rounds, 0 AS tried, 0 AS sent
  FROM moves m
  CROSS JOIN LATERAL (VALUES ('PENDING', '', -m.n, 0), ('CANCELLED', '', m.n, m.vanished))
    AS d(status, reason, n, attempts)
),
counted AS ({COUNT_WORK})
SELECT event_id, channel, reason, free, may_be_sent,
       CASE WHEN free THEN 'CANCELLED' ELSE status END AS status
FROM found
ORDER BY job_id
"""

CANCEL_IF_UNROUTED = f"""
WITH found AS MATERIALIZED (
  SELECT event_id, status, (received_at AT TIME ZONE 'UTC')::date AS day
  FROM events
  WHERE scope_id = $1 AND event_id = ANY ($2::uuid[]) AND status IN ('SCHEDULED', 'QUEUED')
),
cancelled AS (
  UPDATE events
  SET status = 'CANCELLED'
  WHERE event_id = ANY (ARRAY (SELECT event_id FROM found))
),
told AS ({tell_jobs(_CANCELLED.format(channel="''", condition="true"), kind=ChangeKind.EVENT)}
),
delta AS (
  SELECT $1::int AS scope_id, day, 'event' AS channel, status, '' AS reason, -1 AS n FROM found
  UNION ALL
  SELECT $1::int, day, 'event', 'CANCELLED', '', 1 FROM found
),
counted AS ({COUNT_DELTA})
SELECT event_id
FROM found
"""


async def cancel_events(pg: HotConnection, scope_id: ScopeId, event_ids: Sequence[EventId]) -> list[CancelledEvent]:
    """The scope's events of ``event_ids``, cancelled as far as they can be; those of other scopes are left out.

    To be called in a transaction. A router that has one of them in hand is waited for, and a router that comes later
    finds it CANCELLED.
    """
    statuses = {row["event_id"]: row["status"] for row in await pg.fetch(LOCK_EVENTS, scope_id, event_ids)}
    if not statuses:
        return []
    # Each statement sees what was committed before it: jobs of a router and attempts of a settler that were waited for.
    await pg.execute(LOCK_JOBS, scope_id, list(statuses))
    rows = await pg.fetch(CANCEL_IF_UNCLAIMED, scope_id, list(statuses), list(Channel))
    unrouted = {row["event_id"] for row in await pg.fetch(CANCEL_IF_UNROUTED, scope_id, list(statuses))}
    jobs: dict[EventId, list[CancelledJob]] = {}
    fresh = set(unrouted)
    for row in rows:
        if row["free"]:
            fresh.add(row["event_id"])
        jobs.setdefault(EventId(row["event_id"]), []).append(
            CancelledJob(
                Channel(row["channel"]),
                _result_of(JobStatus(row["status"])),
                JobStatus(row["status"]),
                JobReason(row["reason"]),
                row["may_be_sent"],
            )
        )
    return [
        CancelledEvent(
            EventId(event_id),
            EventStatus.CANCELLED if event_id in unrouted else EventStatus(status),
            event_id in fresh,
            tuple(jobs.get(event_id, ())),
        )
        for event_id, status in statuses.items()
    ]


def _result_of(status: JobStatus) -> CancelResult:
    match status:
        case JobStatus.CANCELLED:
            return CancelResult.CANCELLED
        case JobStatus.PENDING:
            return CancelResult.CLAIMED
        case _:
            return CancelResult.FINISHED
