"""Finding jobs for the lists of the API: newest first, page by page, on indexes only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.channel import Channel
from shared.ids import JobId, ScopeId
from shared.job import REASONS, JobReason, JobStatus
from shared.store.database import HotConnection
from shared.store.event_lists import FIRST_INSTANT, LAST_INSTANT

BEYOND_EVERY_JOB = 2**63 - 1


@dataclass(frozen=True, slots=True)
class JobFilters:
    """Which jobs are wanted; None wants any. The range of ``finished_…`` counts for failed jobs only."""

    channel: Channel | None = None
    status: JobStatus | None = None
    reason: JobReason | None = None
    event_type: str | None = None
    finished_from: datetime = FIRST_INSTANT
    finished_until: datetime = LAST_INSTANT

    @property
    def channels(self) -> list[Channel]:
        """The channels to look on."""
        return list(Channel) if self.channel is None else [self.channel]

    def states(self) -> list[tuple[JobStatus, JobReason]]:
        """Every status with every reason of it that is wanted; none when the two contradict each other."""
        without = [(status, JobReason.NONE) for status in (JobStatus.PENDING, JobStatus.SENT, JobStatus.CANCELLED)]
        states = without + [(text.status, reason) for reason, text in REASONS.items()]
        return [
            (status, reason)
            for status, reason in states
            if self.status in (None, status) and self.reason in (None, reason)
        ]


@dataclass(frozen=True, slots=True)
class JobKey:
    """Where a job stands in a list; ``finished_at`` in the list of failed ones only."""

    channel: Channel
    job_id: JobId
    reason: JobReason
    finished_at: datetime | None = None


# One short scan of outgoing_listed per channel, status and reason, each in the order of the list. Compared as rows,
# because then only that index gives the order: with equal signs the planner may go through the primary key, in the
# hope that the state it looks for is frequent.
FIND_JOBS = """
SELECT k.channel, k.job_id, k.reason
FROM unnest($2::text[], $3::text[], $4::text[]) AS s(channel, status, reason)
CROSS JOIN LATERAL (
  SELECT o.channel, o.job_id, o.reason
  FROM outgoing o
  WHERE o.channel = s.channel
    AND (o.scope_id, o.status, o.reason, o.job_id) < ($1, s.status, s.reason, $5)
    AND (o.scope_id, o.status, o.reason, o.job_id) > ($1, s.status, s.reason, 0)
  ORDER BY o.scope_id DESC, o.status DESC, o.reason DESC, o.job_id DESC
  LIMIT $6) k
ORDER BY k.job_id DESC
LIMIT $6
"""


async def find_jobs(
    pg: HotConnection, scope_id: ScopeId, filters: JobFilters, before: int | None, limit: int
) -> list[JobKey]:
    """The next ``limit`` jobs created before ``before`` that ``filters`` let through, whatever their event's type."""
    streams = [(channel, *state) for channel in filters.channels for state in filters.states()]
    columns = [list(column) for column in zip(*streams, strict=True)] or [[], [], []]
    rows = await pg.fetch(FIND_JOBS, scope_id, *columns, BEYOND_EVERY_JOB if before is None else before, limit)
    return [JobKey(Channel(row["channel"]), JobId(row["job_id"]), JobReason(row["reason"])) for row in rows]


FIND_FAILED = """
SELECT k.*
FROM unnest($2::text[]) AS s(channel)
CROSS JOIN LATERAL (
  SELECT o.channel, o.job_id, o.reason, o.finished_at
  FROM outgoing o
  WHERE o.channel = s.channel
    AND o.scope_id = $1
    AND o.status = 'FAILED'
    AND (o.finished_at, o.job_id) < ($3, $4)
    AND o.finished_at >= $5
  ORDER BY o.finished_at DESC, o.job_id DESC
  LIMIT $6) k
ORDER BY k.finished_at DESC, k.job_id DESC
LIMIT $6
"""


async def find_failed(
    pg: HotConnection, scope_id: ScopeId, filters: JobFilters, before: tuple[datetime, int] | None, limit: int
) -> list[JobKey]:
    """The next ``limit`` jobs that FAILED before ``before`` on the channels wanted, the last to fail first."""
    finished_at, job_id = before or (filters.finished_until, 0)
    rows = await pg.fetch(FIND_FAILED, scope_id, filters.channels, finished_at, job_id, filters.finished_from, limit)
    return [
        JobKey(Channel(row["channel"]), JobId(row["job_id"]), JobReason(row["reason"]), row["finished_at"])
        for row in rows
    ]


TYPES_OF_JOBS = """
SELECT o.job_id, e.event_type
FROM unnest($2::text[], $3::bigint[]) AS k(channel, job_id)
JOIN outgoing o ON o.channel = k.channel AND o.job_id = k.job_id AND o.scope_id = $1
JOIN events e ON e.event_id = o.event_id
"""


async def types_of_jobs(pg: HotConnection, scope_id: ScopeId, keys: Sequence[JobKey]) -> Mapping[JobId, str]:
    """The event type of each job; a job whose event is gone is absent."""
    rows = await pg.fetch(TYPES_OF_JOBS, scope_id, [key.channel for key in keys], [key.job_id for key in keys])
    return {JobId(row["job_id"]): row["event_type"] for row in rows}
