"""The jobs that a pause covers: those still in a worker's hands, and those that were set aside for it."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.channel import Channel
from shared.ids import JobId, ScopeId
from shared.store.database import HotConnection

FIRST = JobId(0)
"""Below every job's id."""


@dataclass(frozen=True, slots=True)
class Covered:
    """What a pause is of; None is every scope, or every event type."""

    channels: Sequence[Channel]
    scope_ids: Sequence[ScopeId] | None = None
    event_type: str | None = None


@dataclass(frozen=True, slots=True)
class InClaim:
    """One claim of one job."""

    channel: Channel
    job_id: JobId
    claim_seq: int


# The type is looked up for each of the few jobs that are in a claim: a join might go through all of content.
_OF_TYPE = "(SELECT c.event_type FROM content c WHERE c.job_id = o.job_id)"

FIND_CLAIMED = f"""
SELECT o.channel, o.job_id, o.claim_seq
FROM outgoing o
WHERE o.channel = ANY ($1::text[])
  AND ($2::int[] IS NULL OR o.scope_id = ANY ($2))
  AND o.status = 'PENDING'
  AND o.claimed_until > now()
  AND ($3::text IS NULL OR {_OF_TYPE} = $3)
"""


async def find_claimed(pg: HotConnection, covered: Covered) -> list[InClaim]:
    """The claims that stand now on the jobs that ``covered`` names."""
    rows = await pg.fetch(FIND_CLAIMED, covered.channels, covered.scope_ids, covered.event_type)
    return [InClaim(Channel(row["channel"]), JobId(row["job_id"]), row["claim_seq"]) for row in rows]


COUNT_STANDING = """
SELECT count(*)
FROM unnest($1::text[], $2::bigint[], $3::int[]) AS c(channel, job_id, claim_seq)
JOIN outgoing o ON o.channel = c.channel AND o.job_id = c.job_id
WHERE o.status = 'PENDING' AND o.claim_seq = c.claim_seq AND o.reported_seq < o.claim_seq AND o.claimed_until > now()
"""


async def count_standing(pg: HotConnection, claims: Sequence[InClaim]) -> int:
    """How many of ``claims`` have ended neither in a report nor with their lease."""
    count: int = await pg.fetchval(
        COUNT_STANDING,
        [one.channel for one in claims],
        [one.job_id for one in claims],
        [one.claim_seq for one in claims],
    )
    return count


# Only what was never tried: a job that waits for a retry keeps its time.
BRING_BACK = f"""
WITH aside AS MATERIALIZED (
  SELECT o.job_id
  FROM outgoing o
  WHERE o.channel = ANY ($1::text[])
    AND o.scope_id = ANY ($2::int[])
    AND o.status = 'PENDING'
    AND o.job_id > $5
    AND o.due_at > now()
    AND o.claimed_until < now()
    AND o.attempts = 0 AND o.unanswered = 0 AND o.unknowns = 0
    AND {_OF_TYPE} = $3
  ORDER BY o.job_id
  LIMIT $4
  FOR UPDATE SKIP LOCKED
),
back AS (
  UPDATE outgoing
  SET due_at = now()
  WHERE channel = ANY ($1::text[]) AND job_id = ANY (ARRAY (SELECT job_id FROM aside))
  RETURNING job_id
)
SELECT count(*) AS n, max(job_id) AS last
FROM back
"""


@dataclass(frozen=True, slots=True)
class Brought:
    """How many jobs were brought back at once; the next portion begins behind ``last``."""

    count: int
    last: JobId


async def bring_back(pg: HotConnection, covered: Covered, limit: int, behind: JobId = FIRST) -> Brought:
    """Let jobs of an event type that was paused be due now: those with ids above ``behind``, at most ``limit``."""
    (row,) = await pg.fetch(BRING_BACK, covered.channels, covered.scope_ids or [], covered.event_type, limit, behind)
    return Brought(row["n"], JobId(row["last"] or behind))
