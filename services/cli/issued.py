"""`waybill key list` and `key revoke`: the API keys that were issued, told apart without showing one."""

from collections.abc import Sequence
from datetime import UTC, datetime

from services.cli.acts import record
from services.cli.exits import CommandFailed, show
from services.cli.store import run_on_store
from shared.keys import Permission, hash_key, is_key
from shared.store.database import Database, HotConnection
from shared.store.keys import IssuedKey, find_key, list_keys, revoke_if_not_yet
from shared.store.tenants import find_tenant
from shared.web.instant import write_instant


def list_issued(tenant: str | None, *, as_json: bool) -> None:
    """Print the keys of ``tenant``, or of every tenant; CommandFailed when there is no such tenant."""

    async def work(database: Database) -> list[IssuedKey]:
        if tenant is not None:
            async with database.begin() as connection:
                if await find_tenant(connection, tenant) is None:
                    raise CommandFailed(f"there is no tenant {tenant}: `waybill tenant list` has those there are")
        async with database.hot() as pg:
            return await list_keys(pg, tenant)

    found = run_on_store(work)
    show([_fields(one) for one in found], as_json, *([_line(one) for one in found] or ["There is no key yet."]))


def revoke(named: str, *, as_json: bool) -> None:
    """Revoke the key that ``named`` names: its number or its beginning in the list, or all of it.

    One that was revoked before stays so. CommandFailed when there is none, or more than one begins like that.
    """

    async def work(database: Database) -> tuple[IssuedKey, bool]:
        async with database.hot() as pg:
            one = await _the_one(pg, named)
            if revoked := await revoke_if_not_yet(pg, one.key_id):
                record("key_revoked", tenant=one.tenant, mode=one.mode, id=one.key_id)
            return next(key for key in await list_keys(pg) if key.key_id == one.key_id), revoked

    one, revoked = run_on_store(work)
    what = f"{one.key_id}  {one.hint}  {one.tenant} ({one.mode})"
    said = f"Revoked: {what}. It is refused everywhere within five seconds."
    show({**_fields(one), "changed": revoked}, as_json, said if revoked else f"Revoked before: {what}.")


async def _the_one(pg: HotConnection, named: str) -> IssuedKey:
    keys = await list_keys(pg)
    if is_key(named):
        found = await find_key(pg, hash_key(named))
        meant = [key for key in keys if found is not None and key.key_id == found.key_id]
    else:
        meant = [key for key in keys if named in (str(key.key_id), key.hint, key.hint.rstrip("…"))]
    match meant:
        case [one]:
            return one
        case []:
            # Not repeated: it may be a key with a slip in it.
            raise CommandFailed("there is no such key: `waybill key list` has a number and a beginning for each")
        case several:
            numbers = " or ".join(str(one.key_id) for one in several)
            raise CommandFailed(f"{len(several)} keys begin with {several[0].hint}: name one by its number, {numbers}")


def _fields(one: IssuedKey) -> dict[str, object]:
    return {
        "id": one.key_id,
        "key": one.hint,
        "tenant": one.tenant,
        "mode": one.mode,
        "permissions": list(one.permissions),
        "created_at": write_instant(one.created_at),
        "last_used_at": _written(one.last_used_at),
        "expires_at": _written(one.expires_at),
        "revoked_at": _written(one.revoked_at),
    }


def _written(instant: datetime | None) -> str | None:
    return None if instant is None else write_instant(instant)


def _line(one: IssuedKey) -> str:
    parts = [
        f"{one.key_id}  {one.hint}  {one.tenant} ({one.mode})",
        _ended(one) or _granted(one.permissions),
        f"made {_minute(one.created_at)}",
        "never used" if one.last_used_at is None else f"last used {_minute(one.last_used_at)}",
    ]
    return "  ".join(parts)


def _ended(one: IssuedKey) -> str | None:
    if one.revoked_at is not None:
        return f"revoked {_minute(one.revoked_at)}"
    if one.expires_at is not None and one.expires_at <= datetime.now(UTC):
        return f"expired {_minute(one.expires_at)}"
    return None


def _granted(permissions: Sequence[str]) -> str:
    return "everything" if set(permissions) >= set(Permission) else ",".join(permissions)


def _minute(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%MZ}"
