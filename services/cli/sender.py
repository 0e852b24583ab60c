"""`waybill sender`: what a tenant's messages are signed with."""

import asyncio

from services.cli.acts import record
from services.cli.beside import read_settings
from services.cli.exits import CommandFailed, show
from services.cli.key import KeySettings
from services.cli.store import open_store
from shared.ids import TenantId
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.sender_secrets import VAPID, bound_to, find_secret, put_secret_if_missing
from shared.store.tenants import find_tenant
from shared.vapid import VapidKey, new_vapid_key, parse_vapid_key


def vapid(tenant: str, *, as_json: bool) -> None:
    """Print the public key of the tenant's VAPID key pair, which is made the first time."""
    settings = read_settings(KeySettings)
    sealer = Sealer(settings.master_keys)

    async def work() -> tuple[VapidKey, bool]:
        async with open_store(settings.database_url) as database:
            return await vapid_key(database, sealer, tenant)

    key, made = asyncio.run(work())
    if made:
        record("vapid_key_made", tenant=tenant)
    show({"tenant": tenant, "public_key": key.public, "made": made}, as_json, key.public)


async def vapid_key(database: Database, sealer: Sealer, tenant: str) -> tuple[VapidKey, bool]:
    """The tenant's key pair, and whether it was made just now. CommandFailed when there is no such tenant."""
    tenant_id, made = await make_vapid_key_if_missing(database, sealer, tenant)
    async with database.hot() as pg:
        sealed = await find_secret(pg, tenant_id, VAPID)
    if sealed is None:
        raise CommandFailed(f"somebody took the VAPID key of {tenant} away again: ask once more")
    return parse_vapid_key(sealer.open(sealed, bound_to(tenant_id, VAPID))), made


async def make_vapid_key_if_missing(database: Database, sealer: Sealer, tenant: str) -> tuple[TenantId, bool]:
    """The tenant, and whether a key pair was made for it. CommandFailed when there is no such tenant.

    One that is there stays, whoever made it: every browser that subscribed did so with it.
    """
    async with database.begin() as connection:
        found = await find_tenant(connection, tenant)
        if found is None:
            raise CommandFailed(f"there is no tenant {tenant}: `waybill apply` its file first")
        sealed = sealer.seal(new_vapid_key().secret, bound_to(found.tenant_id, VAPID))
        return found.tenant_id, await put_secret_if_missing(connection, found.tenant_id, VAPID, sealed)
