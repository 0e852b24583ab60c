"""`waybill key`: API keys for products, and tokens with which end users read their inbox."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from services.cli.acts import record
from services.cli.beside import read_settings
from services.cli.exits import UsageMistake, show
from services.cli.store import half_of, mode_of, open_store
from shared.ids import ScopeId
from shared.keys import Permission
from shared.sealing import Sealer
from shared.settings import Settings, listed
from shared.store.database import Database
from shared.store.keys import create_key
from shared.suggestion import did_you_mean
from shared.tenant import Mode
from shared.web.tokens import mint_subscriber_token


class KeySettings(Settings):
    """Where Postgres is, and under which keys its secrets are stored."""

    database_url: str = listed("DATABASE_URL")
    master_keys: tuple[bytes, ...] = listed("MASTER_KEYS")


def create(
    tenant: str, *, test: bool, permissions: Sequence[str] | None, lifetime: timedelta | None, as_json: bool
) -> None:
    """Make an API key and print it, this once."""
    granted = list(Permission) if not permissions else [_permission(word) for word in permissions]
    expires_at = None if lifetime is None else datetime.now(UTC) + lifetime
    mode = mode_of(test)

    async def work(url: str) -> str:
        async with open_store(url) as database:
            return await issue_key(database, tenant, mode, granted, expires_at)

    key = asyncio.run(work(read_settings(KeySettings).database_url))
    record("key_created", tenant=tenant, mode=mode, permissions=granted)
    fields = {
        "key": key,
        "tenant": tenant,
        "mode": mode,
        "permissions": granted,
        "expires_at": None if expires_at is None else expires_at.isoformat(timespec="seconds").replace("+00:00", "Z"),
    }
    show(fields, as_json, key)


def mint_subscriber(tenant: str, *, recipient: str, test: bool, lifetime: timedelta, as_json: bool) -> None:
    """Mint an inbox token and print it."""
    settings = read_settings(KeySettings)
    sealer = Sealer(settings.master_keys)

    async def work() -> str:
        async with open_store(settings.database_url) as database:
            return await subscriber_token(database, sealer, tenant, mode_of(test), recipient, lifetime)

    token = asyncio.run(work())
    show({"token": token, "tenant": tenant, "mode": mode_of(test), "recipient": recipient}, as_json, token)


async def issue_key(
    database: Database, tenant: str, mode: Mode, permissions: Sequence[Permission], expires_at: datetime | None = None
) -> str:
    """A new API key of the tenant's half. CommandFailed when there is no such tenant."""
    async with database.begin() as connection:
        scope = await half_of(connection, tenant, mode)
        return await create_key(connection, scope.scope_id, mode, permissions, expires_at)


async def subscriber_token(
    database: Database,
    sealer: Sealer,
    tenant: str,
    mode: Mode,
    recipient: str,
    lifetime: timedelta,
) -> str:
    """A token for ``recipient``'s inbox. CommandFailed when there is no such tenant, UsageMistake when it cannot be."""
    async with database.begin() as connection:
        scope = await half_of(connection, tenant, mode)
    secret = sealer.open(scope.subscriber_secret, _seal_name(scope.scope_id))
    try:
        return mint_subscriber_token(secret, scope.scope_id, recipient, lifetime)
    except ValueError as exc:
        raise UsageMistake(str(exc)) from exc


def _seal_name(scope_id: ScopeId) -> str:
    return f"scope:{scope_id}"


def _permission(word: str) -> Permission:
    try:
        return Permission(word)
    except ValueError as exc:
        known = [permission.value for permission in Permission]
        hint = did_you_mean(word, known) or f", there are {', '.join(known)}"
        raise UsageMistake(f"--permission {word}: there is no such permission{hint}") from exc
