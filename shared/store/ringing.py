"""What a push needs to know before it rings: the recipient's targets, and how each fared in earlier rounds."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shared.ids import EventId, JobId, ScopeId
from shared.job import JobStatus
from shared.store.database import HotConnection
from shared.store.targets import Kind
from shared.subscription import SubscriptionKeys


@dataclass(frozen=True, slots=True)
class TargetState:
    """One target of a job: registered now (``token`` is not None), or rung in an earlier round, or both.

    ``delivered``: in any earlier round. ``verdict`` and ``reason`` are the words of the last, '' when there was none.
    A browser (``kind`` ``webpush``) has its endpoint for a token, and ``keys``.
    """

    target_id: int
    token: str | None = field(repr=False)
    last_used_at: datetime | None
    delivered: bool
    verdict: str
    reason: str
    kind: Kind = "fcm"
    keys: SubscriptionKeys | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """The job's surroundings at ``seen_at``, by the database's clock; ``lives``: how long it is worth delivering.

    ``unread_count`` is the recipient's inbox's; ``entry_exists``: the event's in-app job is SENT.
    """

    seen_at: datetime
    lives: timedelta
    unread_count: int
    entry_exists: bool
    targets: tuple[TargetState, ...]


# One row at least: the situation is the same for all targets, and there may be none.
LOOK = """
WITH rung AS (
  SELECT target_id,
         bool_or(verdict = 'delivered') AS delivered,
         (array_agg(verdict ORDER BY claim_seq DESC))[1] AS verdict,
         (array_agg(reason ORDER BY claim_seq DESC))[1] AS reason
  FROM attempts
  WHERE job_id = $3 AND target_id <> 0
  GROUP BY target_id
),
registered AS (
  SELECT target_id, kind, token, p256dh, auth, last_used_at
  FROM push_targets
  WHERE scope_id = $1 AND recipient_id = $2
)
SELECT s.*, t.*
FROM (
  SELECT clock_timestamp() AS seen_at,
         (SELECT expires_at - clock_timestamp() FROM outgoing WHERE channel = 'push' AND job_id = $3) AS lives,
         (SELECT unread_count FROM inbox_heads WHERE scope_id = $1 AND recipient_id = $2) AS unread_count,
         (SELECT status FROM outgoing WHERE channel = 'inapp' AND event_id = $4) AS sibling) s
LEFT JOIN (
  SELECT coalesce(g.target_id, r.target_id) AS target_id, g.kind, g.token, g.p256dh, g.auth, g.last_used_at,
         coalesce(r.delivered, false) AS delivered, coalesce(r.verdict, '') AS verdict,
         coalesce(r.reason, '') AS reason
  FROM registered g
  FULL JOIN rung r USING (target_id)) t ON true
ORDER BY t.target_id
"""


async def look(pg: HotConnection, scope_id: ScopeId, recipient_id: str, job_id: JobId, event_id: EventId) -> Situation:
    """The situation of one push job, its targets in the order they were first registered."""
    rows = await pg.fetch(LOOK, scope_id, recipient_id, job_id, event_id)
    first = rows[0]
    return Situation(
        first["seen_at"],
        first["lives"] or timedelta(),
        first["unread_count"] or 0,
        first["sibling"] == JobStatus.SENT,
        tuple(
            TargetState(
                row["target_id"],
                row["token"],
                row["last_used_at"],
                row["delivered"],
                row["verdict"],
                row["reason"],
                row["kind"] or "fcm",
                None if row["p256dh"] is None else SubscriptionKeys(row["p256dh"], row["auth"]),
            )
            for row in rows
            if row["target_id"] is not None
        ),
    )
