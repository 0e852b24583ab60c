"""The demo of `waybill up`: the example tenant, its keys, and an event that is ready to be posted."""

from datetime import UTC, datetime, timedelta
from typing import Any

from services.cli.exits import CommandFailed
from services.cli.home import ROOT
from services.cli.kept import TenantKeys
from services.cli.key import issue_key, subscriber_token
from shared.keys import Permission, hash_key
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.keys import find_key
from shared.store.tenants import scopes_of
from shared.tenant import Mode
from shared.tenantfile.apply import apply
from shared.tenantfile.check import check_file

TENANT = "campus"
TENANT_FILE = ROOT / "examples" / TENANT / f"{TENANT}.yaml"
RECIPIENT = "bob"
EVENT_TYPE = "booking_confirmed"
TOKEN_LIFETIME = timedelta(hours=24)


async def apply_example(database: Database, sealer: Sealer, *, prune: bool) -> str:
    """Apply the example tenant's file; a word on what became of it.

    Pruned, the demo is what the clone says it is, whatever an earlier file had: for a database of `up`'s own.
    """
    if not TENANT_FILE.is_file():
        raise CommandFailed(
            f"{TENANT_FILE} is missing: `waybill up` runs in a clone of Waybill, elsewhere `waybill run`"
        )
    applied = await apply(database, sealer, TENANT_FILE, prune=prune)
    return f"{applied.tenant_key}, version {applied.version}"


async def keys_of_example(database: Database, before: TenantKeys | None) -> TenantKeys:
    """The example tenant's API keys: those of ``before`` that are still valid, new ones for the others."""
    live = await _key(database, Mode.LIVE, before.live if before else None)
    return TenantKeys(live, await _key(database, Mode.TEST, before.test if before else None))


async def bobs_token(database: Database, sealer: Sealer) -> str:
    """A fresh token for the demo recipient's inbox."""
    return await subscriber_token(database, sealer, TENANT, Mode.LIVE, RECIPIENT, TOKEN_LIFETIME)


def example_event() -> dict[str, Any]:
    """A body for POST /api/v1/events, without idempotency key."""
    example = check_file(TENANT_FILE).tenant.event_types[EVENT_TYPE].example
    recipient = {"id": RECIPIENT, "name": "Bob", "email": f"{RECIPIENT}@{TENANT}.example", "locale": "en"}
    return {"event_type": EVENT_TYPE, "recipient": recipient, "payload": example}


async def _key(database: Database, mode: Mode, before: str | None) -> str:
    if before is not None and await _is_valid(database, mode, before):
        return before
    return await issue_key(database, TENANT, mode, list(Permission))


async def _is_valid(database: Database, mode: Mode, key: str) -> bool:
    async with database.hot() as pg:
        found = await find_key(pg, hash_key(key))
    if found is None or found.revoked_at is not None or not found.permissions.issuperset(Permission):
        return False
    if found.expires_at is not None and found.expires_at <= datetime.now(UTC):
        return False
    async with database.begin() as connection:
        scopes = await scopes_of(connection, TENANT)
    return mode in scopes and scopes[mode].scope_id == found.scope_id
