"""Jobs and their attempts, read for the API."""

from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

import asyncpg

from shared.channel import Channel
from shared.ids import EventId, ScopeId
from shared.job import JobReason, JobStatus
from shared.store.database import HotConnection


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
    """One job as it is now, with its attempts in their order."""

    channel: Channel
    status: JobStatus
    reason: JobReason
    created_at: datetime
    due_at: datetime
    expires_at: datetime
    finished_at: datetime | None
    detail: str | None
    attempts: tuple[StoredAttempt, ...]


# One statement, so that a job and its attempts are seen at the same moment.
JOBS_OF_EVENT = """
SELECT o.job_id, o.channel, o.status, o.reason, o.created_at, o.due_at, o.expires_at, o.finished_at,
       o.detail, a.claim_seq, a.target_id, a.number, a.provider, a.verdict, a.reason AS attempt_reason, a.code, a.error,
       a.started_at, a.took_ms, a.applied, a.late, a.possible_duplicate
FROM outgoing o
LEFT JOIN attempts a USING (job_id)
WHERE o.event_id = $2 AND o.scope_id = $1
ORDER BY o.job_id, a.claim_seq, a.target_id
"""


async def jobs_of_event(pg: HotConnection, scope_id: ScopeId, event_id: EventId) -> list[StoredJob]:
    """The jobs of one event with all their attempts, skipped channels included; empty until it is routed."""
    rows = await pg.fetch(JOBS_OF_EVENT, scope_id, event_id)
    return [_job(list(group)) for _, group in groupby(rows, key=lambda row: row["job_id"])]


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
