"""`waybill sender`: what a tenant's messages are signed with."""

import asyncio

from services.cli.exits import CommandFailed, show
from services.cli.key import read_settings
from services.cli.store import open_store
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.sender_secrets import VAPID, bound_to, find_secret, put_secret_if_missing
from shared.store.tenants import find_tenant
from shared.vapid import VapidKey, new_vapid_key, parse_vapid_key


def vapid(tenant: str, *, as_json: bool) -> None:
    """Print the public key of the tenant's VAPID key pair, which is made the first time."""
    settings = read_settings()
    sealer = Sealer(settings.master_keys)

    async def work() -> tuple[VapidKey, bool]:
        async with open_store(settings.database_url) as database:
            return await vapid_key(database, sealer, tenant)

    key, made = asyncio.run(work())
    show({"tenant": tenant, "public_key": key.public, "made": made}, as_json, key.public)


async def vapid_key(database: Database, sealer: Sealer, tenant: str) -> tuple[VapidKey, bool]:
    """The tenant's key pair, and whether it was made just now. CommandFailed when there is no such tenant.

    One that is there stays, whoever made it: every browser that subscribed did so with it.
    """
    async with database.begin() as connection:
        found = await find_tenant(connection, tenant)
        if found is None:
            raise CommandFailed(f"there is no tenant {tenant}: `waybill apply` its file first")
        bound = bound_to(found.tenant_id, VAPID)
        sealed = sealer.seal(new_vapid_key().secret, bound)
        made = await put_secret_if_missing(connection, found.tenant_id, VAPID, sealed)
    async with database.hot() as pg:
        kept = await find_secret(pg, found.tenant_id, VAPID)
    return parse_vapid_key(sealer.open(kept or sealed, bound)), made
