"""Servers and databases that are made for one purpose and thrown away: for the tests and for `waybill bench`."""

import itertools
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from shared import flock
from shared.store.embedded import EmbeddedPostgres
from shared.store.migrate import upgrade
from shared.store.place import Place, prepare

CONNECT_SECONDS = 30
STATEMENT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Server:
    """A running Postgres; ``pid`` is its first process, None where that is not ours to see."""

    url: str
    pid: int | None


@contextmanager
def throw_away_server(home: Path, prefix: str, *, durable: bool) -> Iterator[Server]:
    """A server in ``home`` that lives as long as the block.

    Its folder's name begins with ``prefix``; what killed runs with the same prefix left behind is removed first.
    ``durable``: it waits for the disk at every commit, as a real one does.
    """
    place = prepare(home)
    _remove_leftovers(place, prefix)
    server = EmbeddedPostgres(place, name=f"{prefix}{os.getpid()}", durable=durable)
    try:
        yield Server(server.start(), server.pid)
    finally:
        server.remove()


class ScratchDatabases:
    """Fresh databases on one server, each a clone of one migrated template; their names begin with ``prefix``."""

    def __init__(self, server_url: str, prefix: str = "t") -> None:
        """``server_url`` names any database of the server, by a user who may create others."""
        self._server_url = server_url
        self._prefix = prefix
        self._numbers = itertools.count(1)

    @property
    def template(self) -> str:
        """The name of the migrated template."""
        return f"{self._prefix}_migrated"

    async def make_template(self) -> None:
        """Make the template and bring it to this release's schema."""
        await self._administer(f'CREATE DATABASE "{self.template}"')
        await upgrade(self._named(self.template))

    async def drop_template(self) -> None:
        """Remove the template again; for servers that outlive us."""
        await self._administer(f'DROP DATABASE IF EXISTS "{self.template}" WITH (FORCE)')

    @asynccontextmanager
    async def fresh(self, *, template: str | None = None) -> AsyncIterator[str]:
        """The URL of a database nobody used before; ``template0`` gives an empty one."""
        name = f"{self._prefix}{next(self._numbers)}"
        await self._administer(f'CREATE DATABASE "{name}" TEMPLATE "{template or self.template}"')
        try:
            yield self._named(name)
        finally:
            await self._administer(f'DROP DATABASE "{name}" WITH (FORCE)')

    def _named(self, database: str) -> str:
        return urlsplit(self._server_url)._replace(path=f"/{database}").geturl()

    async def _administer(self, statement: str) -> None:
        connection = await asyncpg.connect(self._named("postgres"), timeout=CONNECT_SECONDS)
        try:
            await connection.execute(statement, timeout=STATEMENT_SECONDS)
        finally:
            await connection.close(timeout=10)


def _remove_leftovers(place: Place, prefix: str) -> None:
    for folder in place.ground.glob(f"{prefix}*"):
        if not flock.is_taken(folder / "postgres.lock"):
            shutil.rmtree(folder, ignore_errors=True)
