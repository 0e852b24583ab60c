"""Tenants and their two scopes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.ids import ScopeId, TenantId
from shared.tenant import Mode

Seal = Callable[[ScopeId], bytes]


@dataclass(frozen=True, slots=True)
class StoredTenant:
    """One row of ``tenants``; ``file_version`` is 0 until a file was applied."""

    tenant_id: TenantId
    key: str
    name: str
    file_version: int


@dataclass(frozen=True, slots=True)
class StoredScope:
    """One row of ``scopes``; the subscriber secret is sealed for ``scope:<scope_id>``."""

    scope_id: ScopeId
    tenant_id: TenantId
    mode: Mode
    subscriber_secret: bytes


_INSERT_IF_NEW = text("""
INSERT INTO tenants (key, name)
VALUES (:key, :name)
ON CONFLICT (key) DO NOTHING
""")

_LOCK = text("""
SELECT tenant_id, key, name, file_version
FROM tenants
WHERE key = :key
FOR UPDATE
""")


async def create_if_missing_and_lock(connection: AsyncConnection, key: str, name: str) -> StoredTenant:
    """The tenant called ``key``, created if need be, locked until the transaction ends."""
    await connection.execute(_INSERT_IF_NEW, {"key": key, "name": name})
    row = (await connection.execute(_LOCK, {"key": key})).one()
    return StoredTenant(TenantId(row.tenant_id), row.key, row.name, row.file_version)


_FIND = text("""
SELECT tenant_id, key, name, file_version
FROM tenants
WHERE key = :key
""")


async def find_tenant(connection: AsyncConnection, key: str) -> StoredTenant | None:
    """The tenant called ``key``, or None."""
    row = (await connection.execute(_FIND, {"key": key})).one_or_none()
    return None if row is None else StoredTenant(TenantId(row.tenant_id), row.key, row.name, row.file_version)


_SET_VERSION = text("""
UPDATE tenants
SET name = :name, file_version = :version
WHERE tenant_id = :tenant_id
""")


async def set_file_version(connection: AsyncConnection, tenant_id: TenantId, name: str, version: int) -> None:
    """Make ``version`` the file that applies from now on."""
    await connection.execute(_SET_VERSION, {"tenant_id": tenant_id, "name": name, "version": version})


# The id is taken first: the secret is sealed for it.
_NEXT_SCOPE = text("SELECT nextval(pg_get_serial_sequence('scopes', 'scope_id')) AS scope_id")

_INSERT_SCOPE = text("""
INSERT INTO scopes (scope_id, tenant_id, mode, subscriber_secret)
OVERRIDING SYSTEM VALUE
VALUES (:scope_id, :tenant_id, :mode, :secret)
""")


async def create_missing_scopes(connection: AsyncConnection, tenant_id: TenantId, seal: Seal) -> None:
    """Give the locked tenant its live and its test scope; ``seal`` makes the sealed secret of a new one."""
    existing = {scope.mode for scope in await scopes_of_tenant(connection, tenant_id)}
    for mode in Mode:
        if mode not in existing:
            scope_id = ScopeId((await connection.execute(_NEXT_SCOPE)).scalar_one())
            row = {"scope_id": scope_id, "tenant_id": tenant_id, "mode": mode.value, "secret": seal(scope_id)}
            await connection.execute(_INSERT_SCOPE, row)


_SCOPES_OF_TENANT = text("""
SELECT scope_id, tenant_id, mode, subscriber_secret
FROM scopes
WHERE tenant_id = :tenant_id
ORDER BY scope_id
""")


async def scopes_of_tenant(connection: AsyncConnection, tenant_id: TenantId) -> list[StoredScope]:
    """The scopes of one tenant, by its id."""
    rows = await connection.execute(_SCOPES_OF_TENANT, {"tenant_id": tenant_id})
    return [_scope(row) for row in rows]


_SCOPES_OF_KEY = text("""
SELECT s.scope_id, s.tenant_id, s.mode, s.subscriber_secret
FROM scopes s
JOIN tenants t USING (tenant_id)
WHERE t.key = :key
ORDER BY s.scope_id
""")


async def scopes_of(connection: AsyncConnection, tenant_key: str) -> dict[Mode, StoredScope]:
    """The scopes of the tenant called ``tenant_key`` by mode; empty when there is no such tenant."""
    rows = await connection.execute(_SCOPES_OF_KEY, {"key": tenant_key})
    return {scope.mode: scope for scope in map(_scope, rows)}


_FIND_SCOPE = text("""
SELECT scope_id, tenant_id, mode, subscriber_secret
FROM scopes
WHERE scope_id = :scope_id
""")


async def find_scope(connection: AsyncConnection, scope_id: int) -> StoredScope | None:
    """The scope with this id, or None."""
    row = (await connection.execute(_FIND_SCOPE, {"scope_id": scope_id})).one_or_none()
    return None if row is None else _scope(row)


def _scope(row: Row[Any]) -> StoredScope:
    return StoredScope(ScopeId(row.scope_id), TenantId(row.tenant_id), Mode(row.mode), bytes(row.subscriber_secret))
