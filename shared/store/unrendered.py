"""Jobs that failed at routing before there was anything to send, and the content that is given to them later."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.channel import Channel
from shared.ids import EventId, JobId, ScopeId
from shared.job import JobReason
from shared.store.database import HotConnection
from shared.store.job_lists import JobKey

NEVER_RENDERED = (JobReason.NO_ADDRESS, JobReason.TEMPLATE_ERROR)
"""The reasons that a job may have failed for without content."""


@dataclass(frozen=True, slots=True)
class Unrendered:
    """A FAILED job without content, and its event; ``recipient`` and ``payload`` are JSON text.

    ``last_address`` is the one that the last event with one gave for this recipient.
    """

    job_id: JobId
    channel: Channel
    event_id: EventId
    event_type: str
    recipient: str
    payload: str
    received_at: datetime
    send_at: datetime | None
    expires_at: datetime
    last_address: str | None


FIND_UNRENDERED = """
SELECT o.job_id, o.channel, e.event_id, e.event_type, e.recipient, e.payload, e.received_at, e.send_at,
       e.expires_at, last.address AS last_address
FROM outgoing o
JOIN events e ON e.event_id = o.event_id
LEFT JOIN LATERAL (
  SELECT n.recipient ->> 'email' AS address
  FROM events n
  WHERE n.scope_id = $1 AND n.recipient ->> 'id' = e.recipient ->> 'id' AND n.recipient ->> 'email' IS NOT NULL
  ORDER BY n.received_at DESC, n.event_id DESC
  LIMIT 1) last ON o.channel = 'email'
WHERE o.channel = ANY ($2::text[])
  AND o.job_id = ANY ($3::bigint[])
  AND o.scope_id = $1
  AND o.status = 'FAILED'
  AND o.reason = ANY ($4::text[])
  AND NOT EXISTS (SELECT FROM content c WHERE c.job_id = o.job_id)
"""


async def find_unrendered(pg: HotConnection, scope_id: ScopeId, keys: Sequence[JobKey]) -> list[Unrendered]:
    """Those of the scope's jobs of ``keys`` that failed without content and whose events are still there."""
    suspects = [key for key in keys if key.reason in NEVER_RENDERED]
    if not suspects:
        return []
    channels, job_ids = sorted({key.channel for key in suspects}), [key.job_id for key in suspects]
    rows = await pg.fetch(FIND_UNRENDERED, scope_id, channels, job_ids, list(NEVER_RENDERED))
    return [
        Unrendered(
            JobId(row["job_id"]),
            Channel(row["channel"]),
            EventId(row["event_id"]),
            row["event_type"],
            row["recipient"],
            row["payload"],
            row["received_at"],
            row["send_at"],
            row["expires_at"],
            row["last_address"],
        )
        for row in rows
    ]


@dataclass(frozen=True, slots=True)
class LateContent:
    """What such a job is to send after all; ``terms`` and ``body`` are JSON (shared/store/content.py)."""

    job_id: JobId
    channel: Channel
    event_type: str
    recipient_id: str
    file_version: int
    terms: str
    body: str


GIVE_CONTENT_IF_MISSING = """
INSERT INTO content (job_id, event_type, recipient_id, file_version, terms, body)
SELECT n.job_id, n.event_type, n.recipient_id, n.file_version, n.terms, n.body
FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::int[], $7::json[], $8::json[])
  AS n(job_id, channel, event_type, recipient_id, file_version, terms, body)
JOIN outgoing o ON o.channel = n.channel AND o.job_id = n.job_id AND o.scope_id = $1
WHERE o.status = 'FAILED'
ORDER BY n.job_id
ON CONFLICT (job_id) DO NOTHING
"""


async def give_content_if_missing(pg: HotConnection, scope_id: ScopeId, contents: Sequence[LateContent]) -> None:
    """Keep ``contents`` for those of their jobs that are still FAILED and without; the jobs are locked."""
    await pg.execute(
        GIVE_CONTENT_IF_MISSING,
        scope_id,
        [one.job_id for one in contents],
        [one.channel for one in contents],
        [one.event_type for one in contents],
        [one.recipient_id for one in contents],
        [one.file_version for one in contents],
        [one.terms for one in contents],
        [one.body for one in contents],
    )
