"""The tenants' own credentials with senders, sealed for the tenant they belong to."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.ids import ScopeId, TenantId
from shared.store.database import HotConnection

FCM = "fcm"
"""The kind of a Firebase service account: the JSON file as Google issues it."""
RELAY = "relay"
"""The kind of a mail relay: its URL with user and password."""
VAPID = "vapid"
"""The kind of the key pair that signs Web Push: its private key. Every subscription hangs on it."""


def bound_to(tenant_id: TenantId, kind: str) -> str:
    """The words a tenant's secret of ``kind`` is sealed for."""
    return f"sender:{tenant_id}:{kind}"


PUT = text("""
INSERT INTO sender_secrets (tenant_id, kind, sealed)
VALUES (:tenant_id, :kind, :sealed)
ON CONFLICT (tenant_id, kind) DO UPDATE
SET sealed = excluded.sealed, updated_at = now()
""")


async def put_secret(connection: AsyncConnection, tenant_id: TenantId, kind: str, sealed: bytes) -> None:
    """Keep ``sealed`` (for ``bound_to``) as the tenant's secret of ``kind``, in place of an earlier one."""
    await connection.execute(PUT, {"tenant_id": tenant_id, "kind": kind, "sealed": sealed})


PUT_IF_MISSING = text("""
INSERT INTO sender_secrets (tenant_id, kind, sealed)
VALUES (:tenant_id, :kind, :sealed)
ON CONFLICT (tenant_id, kind) DO NOTHING
""")


async def put_secret_if_missing(connection: AsyncConnection, tenant_id: TenantId, kind: str, sealed: bytes) -> bool:
    """Whether ``sealed`` (for ``bound_to``) is now the tenant's secret of ``kind``; an earlier one stays."""
    row = {"tenant_id": tenant_id, "kind": kind, "sealed": sealed}
    return (await connection.execute(PUT_IF_MISSING, row)).rowcount > 0


DELETE = text("""
DELETE FROM sender_secrets
WHERE tenant_id = :tenant_id AND kind = :kind
""")


async def delete_secret(connection: AsyncConnection, tenant_id: TenantId, kind: str) -> bool:
    """Whether the tenant had a secret of ``kind`` until now."""
    return (await connection.execute(DELETE, {"tenant_id": tenant_id, "kind": kind})).rowcount > 0


FIND = """
SELECT sealed
FROM sender_secrets
WHERE tenant_id = $1 AND kind = $2
"""


async def find_secret(pg: HotConnection, tenant_id: TenantId, kind: str) -> bytes | None:
    """The tenant's secret of ``kind``, still sealed, or None."""
    sealed: bytes | None = await pg.fetchval(FIND, tenant_id, kind)
    return sealed


FIND_OF_SCOPE = """
SELECT tenant_id, sealed
FROM scopes
JOIN sender_secrets USING (tenant_id)
WHERE scope_id = $1 AND kind = $2
"""


async def find_secret_of_scope(pg: HotConnection, scope_id: ScopeId, kind: str) -> tuple[TenantId, bytes] | None:
    """The secret of ``kind`` of the scope's tenant, still sealed, and whose it is; or None."""
    row = await pg.fetchrow(FIND_OF_SCOPE, scope_id, kind)
    return None if row is None else (TenantId(row["tenant_id"]), row["sealed"])


OF_TENANT = text("""
SELECT kind, sealed
FROM sender_secrets
WHERE tenant_id = :tenant_id
""")


async def secrets_of_tenant(connection: AsyncConnection, tenant_id: TenantId) -> dict[str, bytes]:
    """All of the tenant's secrets by their kind, still sealed."""
    rows = await connection.execute(OF_TENANT, {"tenant_id": tenant_id})
    return {row.kind: bytes(row.sealed) for row in rows}
