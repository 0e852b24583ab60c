"""The demo of `waybill up`: the example tenants, their keys, bob's phone, and an event that is ready to be posted."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from services.cli.exits import CommandFailed
from services.cli.home import ROOT
from services.cli.kept import TenantKeys
from services.cli.key import issue_key, subscriber_token
from services.cli.sender import make_vapid_key_if_missing
from shared.keys import Permission, hash_key
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.keys import find_key
from shared.store.targets import register
from shared.store.tenants import scopes_of
from shared.tenant import Mode
from shared.tenantfile.apply import apply
from shared.tenantfile.check import check_file

TENANTS = ("campus", "portfolio", "storefront")
TENANT = "campus"
"""The one whose event is printed."""
RINGING = ("campus", "storefront")
"""Those of whose apps bob's phone has one."""
RECIPIENT = "bob"
PHONE = "bobs-simulated-phone"
"""The token of bob's phone: the same at every start, so that he never has two."""
EVENT_TYPE = "booking_confirmed"
TOKEN_LIFETIME = timedelta(hours=24)


def file_of(tenant: str) -> Path:
    """The tenant's file in the clone."""
    return ROOT / "examples" / tenant / f"{tenant}.yaml"


async def apply_examples(database: Database, sealer: Sealer, *, prune: bool) -> str:
    """Apply the example tenants' files; a word on what became of each. Their credentials are not looked for.

    With ``prune`` they become what the clone says they are, whatever an earlier version of a file had.
    """
    words = []
    for tenant in TENANTS:
        file = file_of(tenant)
        if not file.is_file():
            raise CommandFailed(f"{file} is missing: `waybill up` runs in a clone of Waybill, elsewhere `waybill run`")
        applied = await apply(database, sealer, file, prune=prune)
        words.append(f"{applied.tenant_key} (version {applied.version})")
    return ", ".join(words)


async def keys_of(database: Database, tenant: str, before: TenantKeys | None) -> TenantKeys:
    """The tenant's API keys: those of ``before`` that are still valid, new ones for the others."""
    live = await _key(database, tenant, Mode.LIVE, before.live if before else None)
    return TenantKeys(live, await _key(database, tenant, Mode.TEST, before.test if before else None))


async def bobs_token(database: Database, sealer: Sealer, tenant: str) -> str:
    """A fresh token for the demo recipient's inbox."""
    return await subscriber_token(database, sealer, tenant, Mode.LIVE, RECIPIENT, TOKEN_LIFETIME)


async def register_phone(database: Database) -> None:
    """Have bob's one phone registered with every tenant whose app it has."""
    async with database.begin() as connection:
        for tenant in RINGING:
            scope_id = (await scopes_of(connection, tenant))[Mode.LIVE].scope_id
            await register(connection, scope_id, RECIPIENT, "fcm", PHONE, "android", "demo")


async def make_vapid_keys(database: Database, sealer: Sealer) -> None:
    """Have every tenant that pushes reach browsers too."""
    for tenant in RINGING:
        await make_vapid_key_if_missing(database, sealer, tenant)


def example_event() -> dict[str, Any]:
    """A body for POST /api/v1/events, without idempotency key."""
    example = check_file(file_of(TENANT)).tenant.event_types[EVENT_TYPE].example
    recipient = {"id": RECIPIENT, "name": "Bob", "email": f"{RECIPIENT}@{TENANT}.example", "locale": "en"}
    return {"event_type": EVENT_TYPE, "recipient": recipient, "payload": example}


async def _key(database: Database, tenant: str, mode: Mode, before: str | None) -> str:
    if before is not None and await _is_valid(database, tenant, mode, before):
        return before
    return await issue_key(database, tenant, mode, list(Permission))


async def _is_valid(database: Database, tenant: str, mode: Mode, key: str) -> bool:
    async with database.hot() as pg:
        found = await find_key(pg, hash_key(key))
    if found is None or found.revoked_at is not None or not found.permissions.issuperset(Permission):
        return False
    if found.expires_at is not None and found.expires_at <= datetime.now(UTC):
        return False
    async with database.begin() as connection:
        scopes = await scopes_of(connection, tenant)
    return mode in scopes and scopes[mode].scope_id == found.scope_id
