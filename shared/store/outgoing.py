"""Jobs come into being: one row per event and channel, however often the event is routed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.channel import Channel
from shared.ids import EventId, JobId, ScopeId
from shared.job import JobReason, JobStatus, Lane
from shared.store.changes import tell_jobs
from shared.store.database import HotConnection


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to create: PENDING with content, or finished at birth (SKIPPED, FAILED) with a reason.

    ``terms`` and ``body`` are JSON (shared/store/content.py); ``body`` is None where nothing was rendered.
    ``accepted_at`` is when the event came in, or was to be sent; ``detail`` says in words why nothing is to be sent.
    """

    event_id: EventId
    scope_id: ScopeId
    channel: Channel
    status: JobStatus
    reason: JobReason
    lane: Lane
    max_attempts: int
    expires_at: datetime
    event_type: str
    recipient_id: str
    file_version: int
    terms: str | None
    body: str | None
    accepted_at: datetime | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class MadeJob:
    """A job that was created just now."""

    job_id: JobId
    event_id: EventId
    channel: Channel
    scope_id: ScopeId
    status: JobStatus


CREATE_IF_MISSING = f"""
WITH wanted AS (
  SELECT *
  FROM unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::smallint[],
              $8::timestamptz[], $9::text[], $10::text[], $11::int[], $12::json[], $13::json[],
              $14::timestamptz[], $15::text[])
    AS w(event_id, scope_id, channel, status, reason, lane, max_attempts,
         expires_at, event_type, recipient_id, file_version, terms, body, accepted_at, detail)
),
made AS (
  INSERT INTO outgoing (event_id, scope_id, channel, status, reason, lane, max_attempts, expires_at, finished_at,
                        accepted_at, detail)
  SELECT event_id, scope_id, channel, status, reason, lane, max_attempts, expires_at,
         CASE WHEN status <> 'PENDING' THEN now() END, accepted_at, detail
  FROM wanted
  ORDER BY event_id, channel
  ON CONFLICT (event_id, channel) DO NOTHING
  RETURNING job_id, event_id, channel, scope_id, status, reason, created_at
),
told AS ({tell_jobs("made WHERE status <> 'PENDING'")}
),
kept AS (
  INSERT INTO content (job_id, event_type, recipient_id, file_version, terms, body)
  SELECT m.job_id, w.event_type, w.recipient_id, w.file_version, w.terms, w.body
  FROM made m
  JOIN wanted w USING (event_id, channel)
  WHERE w.body IS NOT NULL
),
counted AS (
  INSERT INTO ledger (scope_id, day, channel, status, reason, n)
  SELECT scope_id, (created_at AT TIME ZONE 'UTC')::date, channel, status, reason, count(*)
  FROM made
  GROUP BY 1, 2, 3, 4, 5
  ORDER BY 1, 2, 3, 4, 5
  ON CONFLICT (scope_id, day, channel, status, reason) DO UPDATE SET n = ledger.n + excluded.n
)
SELECT job_id, event_id, channel, scope_id, status
FROM made
"""


async def create_if_missing(pg: HotConnection, jobs: Sequence[NewJob]) -> list[MadeJob]:
    """The jobs of ``jobs`` that did not exist yet, created with their content and counted in the ledger.

    To be called inside the transaction that marks their events ROUTED.
    """
    rows = await pg.fetch(
        CREATE_IF_MISSING,
        [job.event_id for job in jobs],
        [job.scope_id for job in jobs],
        [job.channel for job in jobs],
        [job.status for job in jobs],
        [job.reason for job in jobs],
        [job.lane for job in jobs],
        [job.max_attempts for job in jobs],
        [job.expires_at for job in jobs],
        [job.event_type for job in jobs],
        [job.recipient_id for job in jobs],
        [job.file_version for job in jobs],
        [job.terms for job in jobs],
        [job.body for job in jobs],
        [job.accepted_at for job in jobs],
        [job.detail for job in jobs],
    )
    return [
        MadeJob(
            JobId(row["job_id"]),
            EventId(row["event_id"]),
            Channel(row["channel"]),
            ScopeId(row["scope_id"]),
            JobStatus(row["status"]),
        )
        for row in rows
    ]
