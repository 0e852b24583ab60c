"""The versions of every tenant's file: the text as it was applied, and the model compiled from it."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.ids import ScopeId, TenantId
from shared.tenant import Mode, ScopedTenant, Tenant


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One version of one tenant's file."""

    version: int
    source: str
    model: Tenant


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was loaded, and which tenants have a version this release cannot read."""

    scoped: list[ScopedTenant]
    unreadable: dict[TenantId, int]


_FIND = text("""
SELECT version, source, model::text AS model
FROM tenant_files
WHERE tenant_id = :tenant_id AND version = :version
""")


async def find_file(connection: AsyncConnection, tenant_id: TenantId, version: int) -> StoredFile | None:
    """One version, or None when there is no such version."""
    row = (await connection.execute(_FIND, {"tenant_id": tenant_id, "version": version})).one_or_none()
    return None if row is None else StoredFile(row.version, row.source, decode_model(row.model))


_INSERT = text("""
INSERT INTO tenant_files (tenant_id, version, source, model)
VALUES (:tenant_id, :version, :source, CAST(:model AS json))
""")


async def insert_file(
    connection: AsyncConnection, tenant_id: TenantId, version: int, source: str, model: Tenant
) -> None:
    """Keep a new version; the caller holds the tenant's lock, so that versions follow one another."""
    row = {"tenant_id": tenant_id, "version": version, "source": source, "model": encode_model(model)}
    await connection.execute(_INSERT, row)


_VERSIONS = text("""
SELECT tenant_id, file_version
FROM tenants
WHERE file_version > 0
""")


async def file_versions(connection: AsyncConnection) -> dict[TenantId, int]:
    """The version that applies to each tenant: one small statement, asked every few seconds."""
    rows = await connection.execute(_VERSIONS)
    return {TenantId(row.tenant_id): row.file_version for row in rows}


_LOAD = text("""
SELECT s.scope_id, s.tenant_id, s.mode, f.version, f.model::text AS model
FROM tenants t
JOIN tenant_files f ON f.tenant_id = t.tenant_id AND f.version = t.file_version
JOIN scopes s ON s.tenant_id = t.tenant_id
WHERE t.tenant_id = ANY(:tenant_ids)
ORDER BY s.scope_id
""")


async def load_scoped(connection: AsyncConnection, tenant_ids: Sequence[TenantId]) -> Loaded:
    """Both scopes of each tenant with the file that applies now; the two share one model."""
    models: dict[int, Tenant] = {}
    scoped: list[ScopedTenant] = []
    unreadable: dict[TenantId, int] = {}
    for row in await connection.execute(_LOAD, {"tenant_ids": list(tenant_ids)}):
        tenant_id = TenantId(row.tenant_id)
        try:
            if tenant_id not in models:
                models[tenant_id] = decode_model(row.model)
        except msgspec.MsgspecError:
            unreadable[tenant_id] = row.version
            continue
        scope_id, mode = ScopeId(row.scope_id), Mode(row.mode)
        scoped.append(ScopedTenant(scope_id, tenant_id, mode, row.version, models[tenant_id]))
    return Loaded(scoped, unreadable)


def encode_model(model: Tenant) -> str:
    """The model as JSON."""
    return msgspec.json.encode(model).decode()


def decode_model(model: str) -> Tenant:
    """The model of any release: fields it lacks take their defaults, fields nobody knows are left aside."""
    return msgspec.json.decode(model, type=Tenant)
