"""API keys at rest: a hash, what it may do, and until when."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.ids import ScopeId
from shared.keys import Permission, hash_key, hint_of, mint_key
from shared.store.database import HotConnection
from shared.tenant import Mode


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key as it was issued; ``permissions`` are words, also such as this release does not know."""

    key_id: int
    scope_id: ScopeId
    permissions: frozenset[str]
    expires_at: datetime | None
    revoked_at: datetime | None


CREATE_KEY = text("""
INSERT INTO api_keys (scope_id, key_hash, hint, permissions, expires_at)
VALUES (:scope_id, :key_hash, :hint, :permissions, :expires_at)
""")


async def create_key(
    conn: AsyncConnection,
    scope_id: ScopeId,
    mode: Mode,
    permissions: Sequence[Permission],
    expires_at: datetime | None = None,
) -> str:
    """A new key for the scope, whose half of the tenant is ``mode``. The key itself is kept nowhere."""
    key = mint_key(mode)
    await conn.execute(
        CREATE_KEY,
        {
            "scope_id": scope_id,
            "key_hash": hash_key(key),
            "hint": hint_of(key),
            "permissions": [permission.value for permission in permissions],
            "expires_at": expires_at,
        },
    )
    return key


FIND_KEY = """
SELECT key_id, scope_id, permissions, expires_at, revoked_at
FROM api_keys
WHERE key_hash = $1
"""


async def find_key(pg: HotConnection, key_hash: bytes) -> ApiKey | None:
    """The key with this hash, also when it is expired or revoked; None when it was never issued."""
    row = await pg.fetchrow(FIND_KEY, key_hash)
    if row is None:
        return None
    return ApiKey(
        row["key_id"], ScopeId(row["scope_id"]), frozenset(row["permissions"]), row["expires_at"], row["revoked_at"]
    )


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """One key as people are shown it; ``last_used_at`` is None while nobody has used it, ``hint`` how it begins."""

    key_id: int
    tenant: str
    mode: Mode
    hint: str
    permissions: tuple[str, ...]
    created_at: datetime
    last_used_at: datetime | None
    expires_at: datetime | None
    revoked_at: datetime | None


LIST_KEYS = """
SELECT k.key_id, t.key AS tenant, s.mode, k.hint, k.permissions, k.created_at, k.last_used_at, k.expires_at,
       k.revoked_at
FROM api_keys k
JOIN scopes s USING (scope_id)
JOIN tenants t USING (tenant_id)
WHERE $1::text IS NULL OR t.key = $1
ORDER BY t.key, k.key_id
"""


async def list_keys(pg: HotConnection, tenant: str | None = None) -> list[IssuedKey]:
    """Every key of the tenant (of all of them, when left out), revoked and expired ones too, oldest first."""
    return [
        IssuedKey(
            row["key_id"],
            row["tenant"],
            Mode(row["mode"]),
            row["hint"],
            tuple(row["permissions"]),
            row["created_at"],
            row["last_used_at"],
            row["expires_at"],
            row["revoked_at"],
        )
        for row in await pg.fetch(LIST_KEYS, tenant)
    ]


REVOKE_IF_NOT_YET = """
UPDATE api_keys
SET revoked_at = now()
WHERE key_id = $1 AND revoked_at IS NULL
RETURNING key_id
"""


async def revoke_if_not_yet(pg: HotConnection, key_id: int) -> bool:
    """Whether the key was not revoked until now; it is refused everywhere within five seconds."""
    return await pg.fetchval(REVOKE_IF_NOT_YET, key_id) is not None


# Locked in one order: several processes write down the uses of the same keys.
NOTE_USES = """
WITH locked AS MATERIALIZED (
  SELECT key_id
  FROM api_keys
  WHERE key_id = ANY ($1::int[])
  ORDER BY key_id
  FOR UPDATE
)
UPDATE api_keys k
SET last_used_at = u.used_at
FROM locked
JOIN unnest($1::int[], $2::timestamptz[]) AS u(key_id, used_at) USING (key_id)
WHERE k.key_id = locked.key_id AND (k.last_used_at IS NULL OR k.last_used_at < u.used_at)
"""


async def note_uses(pg: HotConnection, uses: Mapping[int, datetime]) -> None:
    """Write down when each key was last used, by its id; an older instant changes nothing."""
    await pg.execute(NOTE_USES, list(uses), list(uses.values()))
