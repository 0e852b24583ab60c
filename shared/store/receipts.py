"""Receipts: what arrives after a mail was taken. Each is kept once, waits for its job to be settled, then is applied.

A bounce takes a SENT job to FAILED ``bounced``, and where it says that the address is dead, suppresses it; a
complaint suppresses it and leaves the job alone. Nothing else ever leaves SENT.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from shared.address import normal_address
from shared.channel import Channel
from shared.ids import EventId, JobId, ScopeId
from shared.store.changes import tell_complaints, tell_jobs
from shared.store.database import HotConnection
from shared.store.ledger import COUNT_WORK, SENT_AFTER, bucket_of

PARKED_FOR = "7 days"
"""How long a receipt waits for a job that is not settled; then it says nothing any more."""

MOST_OF_A_JOB = 20
"""Receipts kept for one mail, and as many again that name whom it was written to."""


class ReceiptSource(StrEnum):
    """How a receipt came in; the word stored in ``receipts.source``."""

    LISTENER = "listener"
    FILE = "file"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True)
class NewReceipt:
    """One recipient's part of a report about the mail of an event.

    ``provider_id`` tells reports of one source apart. ``cause`` is the class of the report; it is ``complaint`` for
    complaints alone. ``address`` is whom the report names.
    """

    event_id: EventId
    source: ReceiptSource
    provider_id: str
    address: str
    cause: str
    code: str | None
    detail: str


class Kept(StrEnum):
    """What became of a receipt that came in."""

    NEW = "new"
    KNOWN = "known"
    """It is there already: the same report came twice."""
    TOO_MANY = "too_many"
    """The mail has as many receipts as may be kept for one."""
    NO_JOB = "no_job"
    """There is no such mail, or none any more."""


# Whoever holds a return path can send any number of reports to it. Those that name others must not keep out the ones
# that name whom we wrote to: each kind has a bound of its own.
KEEP_IF_NEW = """
WITH job AS (
  SELECT o.scope_id, o.job_id, coalesce(lower(c.body ->> 'to_address') = $4, false) AS is_ours
  FROM outgoing o
  LEFT JOIN content c USING (job_id)
  WHERE o.event_id = $1 AND o.channel = 'email'
),
known AS (
  SELECT
  FROM receipts
  WHERE source = $2 AND provider_id = $3 AND address = $4
),
room AS (
  SELECT j.*
  FROM job j
  WHERE NOT EXISTS (SELECT FROM known)
    AND $8 > (SELECT count(*) FROM receipts r WHERE r.job_id = j.job_id AND (r.address = $4 OR NOT j.is_ours))
),
kept AS (
  INSERT INTO receipts (source, provider_id, address, scope_id, job_id, kind, cause, code, detail)
  SELECT $2, $3, $4, scope_id, job_id, CASE $5 WHEN 'complaint' THEN 'complaint' ELSE 'bounce' END, $5, $6, $7
  FROM room
  ON CONFLICT (source, provider_id, address) DO NOTHING
  RETURNING receipt_id
)
SELECT CASE
         WHEN EXISTS (SELECT FROM kept) THEN 'new'
         WHEN NOT EXISTS (SELECT FROM job) THEN 'no_job'
         WHEN EXISTS (SELECT FROM known) OR EXISTS (SELECT FROM room) THEN 'known'
         ELSE 'too_many'
       END
"""


async def keep_if_new(pg: HotConnection, new: NewReceipt) -> Kept:
    """Keep ``new`` beside the mail it is about, parked until it is applied; it may be one too many."""
    told = await pg.fetchval(
        KEEP_IF_NEW,
        new.event_id,
        new.source,
        new.provider_id,
        normal_address(new.address),
        new.cause,
        new.code,
        new.detail,
        MOST_OF_A_JOB,
    )
    return Kept(told)


_COMPLAINTS = "ripe JOIN locked USING (job_id, scope_id) WHERE kind = 'complaint' AND NOT too_old AND NOT left_behind"

# Jobs are locked in id order, as everywhere; a receipt that another process is at is skipped.
APPLY_RIPE = f"""
WITH waiting AS MATERIALIZED (
  SELECT r.receipt_id, r.scope_id, r.job_id, r.address, r.kind, r.cause, r.code, r.detail, r.received_at
  FROM receipts r
  LEFT JOIN outgoing o ON o.channel = 'email' AND o.job_id = r.job_id
  WHERE r.applied_at IS NULL
    AND (o.status IS DISTINCT FROM 'PENDING' OR r.received_at < now() - interval '{PARKED_FOR}')
  ORDER BY r.receipt_id
  LIMIT $1
  FOR UPDATE OF r SKIP LOCKED
),
locked AS MATERIALIZED (
  SELECT o.job_id, o.event_id, o.scope_id, o.status, o.reason, o.created_at, o.accepted_at, o.finished_at
  FROM outgoing o
  WHERE o.channel = 'email' AND o.job_id = ANY (ARRAY(SELECT job_id FROM waiting))
  ORDER BY o.job_id
  FOR UPDATE
),
-- A job may have become PENDING again before it was locked: its receipts go on waiting. One that was readdressed since
-- goes to somebody else: what still comes back about the address before says nothing of that mail.
ripe AS MATERIALIZED (
  SELECT w.*, c.body ->> 'to_address' AS written_to, was.left_behind,
         l.status IS NOT DISTINCT FROM 'PENDING' AS too_old,
         coalesce(w.kind = 'bounce' AND l.status = 'SENT' AND NOT was.left_behind, false) AS bounces
  FROM waiting w
  LEFT JOIN locked l USING (job_id)
  LEFT JOIN content c USING (job_id)
  CROSS JOIN LATERAL (
    SELECT EXISTS (
      SELECT
      FROM receipts earlier
      WHERE earlier.job_id = w.job_id AND earlier.address = w.address
        AND earlier.effect IN ('bounced_suppressed', 'suppressed')
        AND w.address <> lower(c.body ->> 'to_address')
    ) AS left_behind
  ) was
  WHERE l.status IS DISTINCT FROM 'PENDING' OR w.received_at < now() - interval '{PARKED_FOR}'
),
bounced AS (
  UPDATE outgoing o
  SET status = 'FAILED', reason = 'bounced', finished_at = now()
  WHERE o.channel = 'email' AND o.status = 'SENT'
    AND o.job_id = ANY (ARRAY(SELECT job_id FROM ripe WHERE bounces))
  RETURNING o.job_id, o.event_id, o.scope_id, o.status, o.reason
),
told AS ({tell_jobs("bounced", "'email'")}
),
told_of_complaints AS ({tell_complaints(_COMPLAINTS)}
),
-- Whom we wrote to, and nobody whom only the report names.
dead AS MATERIALIZED (
  SELECT receipt_id, scope_id, lower(written_to) AS address, kind, code, detail
  FROM ripe
  WHERE NOT too_old AND NOT left_behind
    AND (kind = 'complaint' OR (cause = 'permanent-recipient' AND address = lower(written_to)))
    AND written_to IS NOT NULL
),
suppressed AS (
  INSERT INTO suppressions (scope_id, channel, address, reason, source, code, detail)
  SELECT DISTINCT ON (scope_id, address) scope_id, 'email', address,
         CASE kind WHEN 'complaint' THEN 'complaint' ELSE 'bounced' END, 'receipt', code, detail
  FROM dead
  ORDER BY scope_id, address, receipt_id
  ON CONFLICT (scope_id, channel, address) DO NOTHING
),
applied AS (
  UPDATE receipts r
  SET applied_at = now(),
      effect = CASE WHEN p.too_old THEN 'too_old'
                    WHEN p.bounces AND d.receipt_id IS NOT NULL THEN 'bounced_suppressed'
                    WHEN p.bounces THEN 'bounced'
                    WHEN d.receipt_id IS NOT NULL THEN 'suppressed'
                    ELSE 'none' END
  FROM ripe p
  LEFT JOIN dead d USING (receipt_id)
  WHERE r.receipt_id = p.receipt_id
  RETURNING r.scope_id, r.job_id, r.kind, r.cause, r.effect
),
-- How long a mail took that came back is nobody's figure.
delta AS (
  SELECT l.scope_id, (l.created_at AT TIME ZONE 'UTC')::date AS day, 'email' AS channel, d.status, d.reason, d.n,
         0 AS attempts, 0 AS rounds, 0 AS tried, d.sent
  FROM bounced b
  JOIN locked l USING (job_id)
  CROSS JOIN LATERAL (
    VALUES (l.status, l.reason, -1, 0),
           ('FAILED', 'bounced', 1, 0),
           ('{SENT_AFTER}', {bucket_of("l.accepted_at", "l.created_at", "l.finished_at")}, 0, -1)
  ) AS d(status, reason, n, sent)
),
counted AS ({COUNT_WORK})
SELECT scope_id, job_id, kind, cause, effect
FROM applied
"""


@dataclass(frozen=True, slots=True)
class Applied:
    """What one receipt did: ``effect`` is one of the words of that column."""

    scope_id: ScopeId
    job_id: JobId
    kind: str
    cause: str
    effect: str


async def apply_ripe(pg: HotConnection, limit: int) -> list[Applied]:
    """Apply at most ``limit`` receipts whose jobs are settled; each is applied once, whoever else does the same."""
    rows = await pg.fetch(APPLY_RIPE, limit)
    return [Applied(ScopeId(r["scope_id"]), JobId(r["job_id"]), r["kind"], r["cause"], r["effect"]) for r in rows]


@dataclass(frozen=True, slots=True)
class StoredReceipt:
    """One receipt as it is told beside its job. ``effect`` is '' until it is applied."""

    kind: str
    cause: str
    code: str | None
    detail: str | None
    source: ReceiptSource
    received_at: datetime
    applied_at: datetime | None
    effect: str


RECEIPTS_OF_EVENT = """
SELECT o.channel, r.kind, r.cause, r.code, r.detail, r.source, r.received_at, r.applied_at, r.effect
FROM outgoing o
JOIN receipts r USING (job_id)
WHERE o.event_id = $2 AND o.scope_id = $1 AND o.channel = 'email'
ORDER BY r.receipt_id
LIMIT 100
"""


async def receipts_of_event(
    pg: HotConnection, scope_id: ScopeId, event_id: EventId
) -> Mapping[Channel, Sequence[StoredReceipt]]:
    """The receipts of the event's jobs in the order in which they came; a channel without any is absent."""
    rows = await pg.fetch(RECEIPTS_OF_EVENT, scope_id, event_id)
    found: dict[Channel, list[StoredReceipt]] = {}
    for row in rows:
        receipt = StoredReceipt(
            row["kind"],
            row["cause"],
            row["code"],
            row["detail"],
            ReceiptSource(row["source"]),
            row["received_at"],
            row["applied_at"],
            row["effect"],
        )
        found.setdefault(Channel(row["channel"]), []).append(receipt)
    return found
