"""Deleting what was kept long enough: content and attempts first, jobs and events with their keys later.

Finished work only. The ledger is not touched, and what stands in an inbox is its owner's. Both walks go from the
oldest on and lock what they delete for; what somebody else holds is passed over, so that purgers wait for nobody.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar
from uuid import UUID

import asyncpg

from shared.channel import Channel
from shared.ids import EventId, JobId
from shared.store.database import HotConnection

P = TypeVar("P", JobId, EventId)
BEFORE_EVERY_JOB = JobId(0)
BEFORE_EVERY_EVENT = EventId(UUID(int=0))


@dataclass(frozen=True, slots=True)
class Portion(Generic[P]):
    """One step of a walk: the rows that are ``gone``, by table, and where the walk may go on.

    ``reached`` is None when it is over: nothing behind that place is old enough.
    """

    gone: Mapping[str, int]
    reached: P | None


# Of what is walked over most is purged, so that the next walk does not meet it again. Numbers of jobs grow with time:
# behind a job that was created too lately there is nothing to find. The job's row is locked, so that nobody gives the
# job back to a worker meanwhile.
PURGE_CONTENT = """
WITH walked AS MATERIALIZED (
  SELECT job_id
  FROM content
  WHERE job_id > $2
  ORDER BY job_id
  LIMIT $3
),
finished AS MATERIALIZED (
  SELECT f.job_id
  FROM unnest($4::text[]) AS c(channel)
  CROSS JOIN LATERAL (
    SELECT o.job_id
    FROM outgoing o
    WHERE o.channel = c.channel
      AND o.job_id = ANY (ARRAY(SELECT job_id FROM walked))
      AND o.status <> 'PENDING'
      AND o.finished_at < now() - $1::interval
    FOR UPDATE SKIP LOCKED) f
),
content_gone AS (
  DELETE FROM content
  WHERE job_id = ANY (ARRAY(SELECT job_id FROM finished))
  RETURNING job_id
),
attempts_gone AS (
  DELETE FROM attempts
  WHERE job_id = ANY (ARRAY(SELECT job_id FROM finished))
  RETURNING job_id
)
SELECT (SELECT count(*) FROM content_gone) AS content,
       (SELECT count(*) FROM attempts_gone) AS attempts,
       (SELECT o.job_id
        FROM unnest($4::text[]) AS c(channel)
        CROSS JOIN LATERAL (
          SELECT o.job_id
          FROM outgoing o
          WHERE o.channel = c.channel
            AND o.job_id = (SELECT max(job_id) FROM walked HAVING count(*) = $3)
            AND o.created_at < now() - $1::interval) o) AS reached
"""


async def purge_content(pg: HotConnection, keep: timedelta, after: JobId, limit: int) -> Portion[JobId]:
    """Delete content and attempts of those of the next ``limit`` jobs that finished longer ago than ``keep``."""
    row = await pg.fetchrow(PURGE_CONTENT, keep, after, limit, list(Channel))
    return _portion(row, None if row is None or row["reached"] is None else JobId(row["reached"]))


# An event and its jobs go together, or not at all. Its age is that of the last thing known of it, for it does not say
# when it was cancelled or given up.
PURGE_EVENTS = """
WITH walked AS MATERIALIZED (
  SELECT event_id
  FROM events
  WHERE event_id > $2
  ORDER BY event_id
  LIMIT $3
),
old AS MATERIALIZED (
  SELECT event_id
  FROM events
  WHERE event_id = ANY (ARRAY(SELECT event_id FROM walked))
    AND status IN ('ROUTED', 'FAILED', 'CANCELLED')
    AND greatest(received_at, send_at, announced_at, routed_at) < now() - $1::interval
  FOR UPDATE SKIP LOCKED
),
jobs AS MATERIALIZED (
  SELECT event_id, job_id
  FROM outgoing
  WHERE event_id = ANY (ARRAY(SELECT event_id FROM old))
),
finished AS MATERIALIZED (
  SELECT job_id
  FROM outgoing
  WHERE event_id = ANY (ARRAY(SELECT event_id FROM old))
    AND status <> 'PENDING'
    AND finished_at < now() - $1::interval
  FOR UPDATE SKIP LOCKED
),
over AS MATERIALIZED (
  SELECT event_id
  FROM old
  EXCEPT
  SELECT event_id
  FROM jobs
  LEFT JOIN finished USING (job_id)
  WHERE finished.job_id IS NULL
),
last_jobs AS MATERIALIZED (
  SELECT job_id
  FROM jobs
  JOIN over USING (event_id)
),
content_gone AS (
  DELETE FROM content
  WHERE job_id = ANY (ARRAY(SELECT job_id FROM last_jobs))
  RETURNING job_id
),
attempts_gone AS (
  DELETE FROM attempts
  WHERE job_id = ANY (ARRAY(SELECT job_id FROM last_jobs))
  RETURNING job_id
),
receipts_gone AS (
  DELETE FROM receipts
  WHERE job_id = ANY (ARRAY(SELECT job_id FROM last_jobs))
  RETURNING job_id
),
jobs_gone AS (
  DELETE FROM outgoing
  WHERE event_id = ANY (ARRAY(SELECT event_id FROM over))
  RETURNING job_id
),
events_gone AS (
  DELETE FROM events
  WHERE event_id = ANY (ARRAY(SELECT event_id FROM over))
  RETURNING event_id
)
SELECT (SELECT count(*) FROM content_gone) AS content,
       (SELECT count(*) FROM attempts_gone) AS attempts,
       (SELECT count(*) FROM receipts_gone) AS receipts,
       (SELECT count(*) FROM jobs_gone) AS outgoing,
       (SELECT count(*) FROM events_gone) AS events,
       (SELECT event_id
        FROM events
        WHERE event_id = (SELECT event_id FROM walked ORDER BY event_id OFFSET $3 - 1)
          AND received_at < now() - $1::interval) AS reached
"""


async def purge_events(pg: HotConnection, keep: timedelta, after: EventId, limit: int) -> Portion[EventId]:
    """Delete those of the next ``limit`` events that were over, jobs and all, longer ago than ``keep``.

    Their idempotency keys go with them.
    """
    row = await pg.fetchrow(PURGE_EVENTS, keep, after, limit)
    return _portion(row, None if row is None or row["reached"] is None else EventId(row["reached"]))


def _portion(row: asyncpg.Record | None, reached: P | None) -> Portion[P]:
    counts = {} if row is None else dict(row)
    counts.pop("reached", None)
    return Portion(counts, reached)
