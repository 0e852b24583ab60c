"""The suite's own Postgres: one throw-away server, one migrated template, one fresh clone of it per test."""

import itertools
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from shared import flock
from shared.store.embedded import EmbeddedPostgres
from shared.store.migrate import upgrade
from shared.store.place import Place, prepare

_PREFIX = "test-postgres-"  # not "test-": RabbitMQ's folders begin with that, too
TEMPLATE = "migrated"


@contextmanager
def throw_away_server(home: Path, *, durable: bool = False) -> Iterator[str]:
    """The URL of a server that lives as long as the block; what killed runs left behind is removed first.

    ``durable``: it waits for the disk at every commit, as a real one does; tests have no need of that.
    """
    place = prepare(home)
    _remove_leftovers(place)
    server = EmbeddedPostgres(place, name=f"{_PREFIX}{os.getpid()}", durable=durable)
    try:
        yield server.start()
    finally:
        server.remove()


class Databases:
    """Fresh databases on one server, each a clone of one migrated template."""

    def __init__(self, server_url: str) -> None:
        """``server_url`` names any database of the server, by a user who may create others."""
        self._server_url = server_url
        self._numbers = itertools.count(1)

    async def make_template(self) -> None:
        """Make the template and bring it to this release's schema."""
        await self._administer(f'CREATE DATABASE "{TEMPLATE}"')
        await upgrade(self._named(TEMPLATE))

    @asynccontextmanager
    async def fresh(self, *, template: str = TEMPLATE) -> AsyncIterator[str]:
        """The URL of a database nobody used before; ``template0`` gives an empty one."""
        name = f"t{next(self._numbers)}"
        await self._administer(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        try:
            yield self._named(name)
        finally:
            await self._administer(f'DROP DATABASE "{name}" WITH (FORCE)')

    def _named(self, database: str) -> str:
        return urlsplit(self._server_url)._replace(path=f"/{database}").geturl()

    async def _administer(self, statement: str) -> None:
        connection = await asyncpg.connect(self._named("postgres"), timeout=30)
        try:
            await connection.execute(statement, timeout=60)
        finally:
            await connection.close(timeout=10)


def _remove_leftovers(place: Place) -> None:
    for folder in place.ground.glob(f"{_PREFIX}*"):
        if not flock.is_taken(folder / "postgres.lock"):
            shutil.rmtree(folder, ignore_errors=True)
