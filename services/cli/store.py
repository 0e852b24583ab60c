"""The database as a short command uses it: opened, its schema checked, closed again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from services.cli.beside import read_settings
from services.cli.db import DatabaseSettings
from services.cli.exits import CommandFailed
from shared.errors import CannotStart
from shared.store.database import Database
from shared.store.migrate import SchemaState, schema_state
from shared.store.tenants import StoredScope, scopes_of
from shared.tenant import Mode

POOL = 2

T = TypeVar("T")


def run_on_store(work: Callable[[Database], Awaitable[T]]) -> T:
    """What ``work`` returns for the database that the settings name. Raises SettingsError, and as ``open_store``."""
    url = read_settings(DatabaseSettings).database_url

    async def opened() -> T:
        async with open_store(url) as database:
            return await work(database)

    return asyncio.run(opened())


@asynccontextmanager
async def open_store(url: str) -> AsyncIterator[Database]:
    """A small pool on the database at ``url`` for the block.

    Raises StoreUnavailable when it does not answer, CannotStart when it has another schema.
    """
    database = Database(url, pool_size=POOL, name="waybill command")
    try:
        if (wrong := schema_mistake(await schema_state(database))) is not None:
            raise CannotStart(wrong)
        yield database
    finally:
        await database.close()


def schema_mistake(state: SchemaState) -> str | None:
    """What is wrong with the schema and the command that mends it, or None when it is this release's."""
    if state.ready:
        return None
    found = f"is at {state.current}" if state.current else "is missing"
    return f"the schema {found}, this release wants {state.wanted}: run `waybill db migrate`"


async def half_of(connection: AsyncConnection, tenant: str, mode: Mode) -> StoredScope:
    """The tenant's half. CommandFailed when there is no such tenant."""
    scopes = await scopes_of(connection, tenant)
    if mode not in scopes:
        raise CommandFailed(f"there is no tenant {tenant}: `waybill apply` its file first")
    return scopes[mode]


def mode_of(test: bool) -> Mode:
    """The half that ``--test`` means, or its absence."""
    return Mode.TEST if test else Mode.LIVE
