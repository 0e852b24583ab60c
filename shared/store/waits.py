"""The pauses that may be what a scope's jobs wait for, read for the API."""

from dataclasses import dataclass
from datetime import datetime

from shared.ids import ScopeId
from shared.store.database import HotConnection
from shared.store.pauses import PauseKind
from shared.store.sender_secrets import RELAY


@dataclass(frozen=True, slots=True)
class StandingPause:
    """One pause as somebody who asks about a job sees it; ``channel`` '' is every channel, ``name`` as its kind says.

    ``failures`` counts the refusals that were believed; 0 in a provider's pause: it holds some recipients only.
    """

    kind: PauseKind
    channel: str
    name: str
    reason: str
    code: str
    since: datetime
    until: datetime | None
    failures: int


# A tenant with a relay of its own has nothing to do with the platform's, whose pauses are of all tenants.
PAUSES_OF_SCOPE = f"""
SELECT p.kind, p.channel, p.name, p.reason, p.code, p.paused_at, p.paused_until, p.failures
FROM scopes s
JOIN pauses p ON p.tenant_id IN (0, s.tenant_id)
WHERE s.scope_id = $1 AND (p.kind IN ('relay', 'sender') OR p.paused_until IS NULL OR p.paused_until > now())
  AND NOT (
    p.kind = 'relay' AND p.channel = 'email'
    AND EXISTS (SELECT FROM sender_secrets x WHERE x.tenant_id = s.tenant_id AND x.kind = '{RELAY}')
  )
ORDER BY p.pause_id
"""


async def pauses_of_scope(pg: HotConnection, scope_id: ScopeId) -> list[StandingPause]:
    """Every pause that stands and may hold the scope's jobs, oldest first."""
    return [
        StandingPause(
            PauseKind(row["kind"]),
            row["channel"],
            row["name"],
            row["reason"],
            row["code"],
            row["paused_at"],
            row["paused_until"],
            row["failures"],
        )
        for row in await pg.fetch(PAUSES_OF_SCOPE, scope_id)
    ]
