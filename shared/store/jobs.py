"""Jobs and their attempts, read for the API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

import asyncpg

from shared.channel import Channel
from shared.ids import EventId, ScopeId
from shared.job import JobReason, JobStatus
from shared.store.database import HotConnection
from shared.store.job_lists import JobKey


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """One provider call, or a claim that was ``lost``."""

    claim_seq: int
    target_id: int
    number: int
    provider: str
    verdict: str
    reason: str
    code: str | None
    error: str | None
    started_at: datetime
    took_ms: int
    applied: bool
    late: bool
    possible_duplicate: bool


@dataclass(frozen=True, slots=True)
class StoredJob:
    """One job as it is now, with its attempts in their order. ``in_hand``: a worker's lease on it runs."""

    channel: Channel
    status: JobStatus
    reason: JobReason
    created_at: datetime
    due_at: datetime
    expires_at: datetime
    finished_at: datetime | None
    detail: str | None
    in_hand: bool
    attempts: tuple[StoredAttempt, ...]


_JOB = """o.job_id, o.channel, o.status, o.reason, o.created_at, o.due_at, o.expires_at, o.finished_at, o.detail,
       o.claimed_until > now() AS in_hand"""
_ATTEMPT = """a.claim_seq, a.target_id, a.number, a.provider, a.verdict, a.reason AS attempt_reason, a.code, a.error,
       a.started_at, a.took_ms, a.applied, a.late, a.possible_duplicate"""

# One statement, so that a job and its attempts are seen at the same moment.
JOBS_OF_EVENT = f"""
SELECT {_JOB}, {_ATTEMPT}
FROM outgoing o
LEFT JOIN attempts a USING (job_id)
WHERE o.event_id = $2 AND o.scope_id = $1
ORDER BY o.job_id, a.claim_seq, a.target_id
"""


async def jobs_of_event(pg: HotConnection, scope_id: ScopeId, event_id: EventId) -> list[StoredJob]:
    """The jobs of one event with all their attempts, skipped channels included; empty until it is routed."""
    rows = await pg.fetch(JOBS_OF_EVENT, scope_id, event_id)
    return [_job(list(group)) for _, group in groupby(rows, key=lambda row: row["job_id"])]


MOST_ATTEMPTS = 20
"""In a list, of each job the last ones: a job may have hundreds."""
_LAST_ATTEMPTS = f"""
LEFT JOIN LATERAL (
  SELECT *
  FROM attempts
  WHERE job_id = o.job_id
  ORDER BY claim_seq DESC, target_id DESC
  LIMIT {MOST_ATTEMPTS}) a ON true
"""

JOBS_OF_EVENTS = f"""
SELECT o.event_id, {_JOB}, {_ATTEMPT}
FROM outgoing o
{_LAST_ATTEMPTS}
WHERE o.scope_id = $1 AND o.event_id = ANY ($2::uuid[])
ORDER BY o.event_id, o.job_id, a.claim_seq, a.target_id
"""


async def jobs_of_events(
    pg: HotConnection, scope_id: ScopeId, event_ids: Sequence[EventId]
) -> Mapping[EventId, list[StoredJob]]:
    """The jobs of each event with their last attempts; an event without jobs is absent."""
    rows = await pg.fetch(JOBS_OF_EVENTS, scope_id, event_ids)
    jobs: dict[EventId, list[StoredJob]] = {}
    for (event_id, _), group in groupby(rows, key=lambda row: (EventId(row["event_id"]), row["job_id"])):
        jobs.setdefault(event_id, []).append(_job(list(group)))
    return jobs


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job with what a list says of its event; ``event_type`` is None when the event is gone."""

    event_id: EventId
    event_type: str | None
    ref: str | None
    recipient_id: str | None
    job: StoredJob


READ_JOBS = f"""
SELECT k.place, o.event_id, e.event_type, e.ref, e.recipient ->> 'id' AS recipient_id, {_JOB}, {_ATTEMPT}
FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS k(channel, job_id, place)
JOIN outgoing o ON o.channel = k.channel AND o.job_id = k.job_id AND o.scope_id = $1
LEFT JOIN events e ON e.event_id = o.event_id
{_LAST_ATTEMPTS}
ORDER BY k.place, a.claim_seq, a.target_id
"""


async def read_jobs(pg: HotConnection, scope_id: ScopeId, keys: Sequence[JobKey]) -> list[ListedJob]:
    """The jobs of ``keys`` in their order, with their last attempts."""
    rows = await pg.fetch(READ_JOBS, scope_id, [key.channel for key in keys], [key.job_id for key in keys])
    listed = []
    for _, group in groupby(rows, key=lambda row: row["place"]):
        first, *rest = group
        listed.append(
            ListedJob(
                EventId(first["event_id"]),
                first["event_type"],
                first["ref"],
                first["recipient_id"],
                _job([first, *rest]),
            )
        )
    return listed


def _job(rows: list[asyncpg.Record]) -> StoredJob:
    first = rows[0]
    return StoredJob(
        Channel(first["channel"]),
        JobStatus(first["status"]),
        JobReason(first["reason"]),
        first["created_at"],
        first["due_at"],
        first["expires_at"],
        first["finished_at"],
        first["detail"],
        first["in_hand"],
        tuple(_attempt(row) for row in rows if row["claim_seq"] is not None),
    )


def _attempt(row: asyncpg.Record) -> StoredAttempt:
    return StoredAttempt(
        row["claim_seq"],
        row["target_id"],
        row["number"],
        row["provider"],
        row["verdict"],
        row["attempt_reason"],
        row["code"],
        row["error"],
        row["started_at"],
        row["took_ms"],
        row["applied"],
        row["late"],
        row["possible_duplicate"],
    )
