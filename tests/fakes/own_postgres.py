"""A Postgres of a test's own, to be stopped, killed, locked and made to fail while the product runs on it."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg

from shared.errors import CannotStart
from shared.store.embedded import EmbeddedPostgres
from shared.store.migrate import upgrade
from shared.store.place import prepare
from tests.fakes.product import eventually
from tests.fakes.wire import Wire, wire_to

_PREFIX = "own-postgres-"
ENDED = "ended"
"""A fault that is no SQLSTATE: the backend is terminated in the middle of the statement."""


class OwnServer:
    """A migrated server, durable as a real one. Its ``url`` leads over a wire and outlives stops and kills."""

    def __init__(self, server: EmbeddedPostgres, wire: Wire) -> None:
        self.wire = wire
        self._server = server
        self._direct_url = ""

    @property
    def url(self) -> str:
        """Its database ``waybill``, by way of the wire."""
        parts = urlsplit(self._direct_url)
        return parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{self.wire.port}").geturl()

    async def start(self) -> None:
        """Start it (again); what a killed one left behind may need a moment to end."""

        async def started() -> bool:
            try:
                self._direct_url = await asyncio.to_thread(self._server.start)
            except CannotStart:
                return False
            return True

        await eventually(started, seconds=60)
        self.wire.lead_to("127.0.0.1", urlsplit(self._direct_url).port or 0)

    async def stop(self) -> None:
        """Stop it in order: sessions are cut, what was committed is kept."""
        await asyncio.to_thread(self._server.stop)

    async def kill(self) -> None:
        """End its postmaster as kill -9 does; what was committed is found in the log at the next start."""
        assert self._server.pid is not None
        os.kill(self._server.pid, signal.SIGKILL)
        await self.stop()

    @asynccontextmanager
    async def session(self) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        """A session past the wire."""
        connection = await asyncpg.connect(self._direct_url, timeout=30)
        try:
            yield connection
        finally:
            await connection.close(timeout=10)

    @asynccontextmanager
    async def locked(self, table: str) -> AsyncIterator[None]:
        """Somebody holds ``table`` meanwhile, as a migration by hand does."""
        async with self.session() as pg:
            await pg.execute(f"BEGIN; LOCK TABLE {table}")
            yield

    @asynccontextmanager
    async def spoilt(self, operation: str, table: str, *faults: str) -> AsyncIterator[None]:
        """Each of ``faults`` (SQLSTATEs, or ENDED) ends two statements that ``operation`` rows of ``table``.

        Returns once all of them have.
        """
        name, count = f"spoil_{operation}_{table}".lower(), 2 * len(faults)
        async with self.session() as pg:
            await pg.execute(
                f"""
                CREATE SEQUENCE {name};
                CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
                DECLARE
                  -- A sequence counts also what is rolled back.
                  n bigint := nextval('{name}');
                  fault text := ('{{{",".join(faults)}}}'::text[])[(n - 1) % {len(faults)} + 1];
                BEGIN
                  IF n <= {count} AND fault = '{ENDED}' THEN
                    PERFORM pg_terminate_backend(pg_backend_pid());
                    PERFORM pg_sleep(10);
                  ELSIF n <= {count} THEN
                    RAISE EXCEPTION 'spoilt' USING ERRCODE = fault;
                  END IF;
                  RETURN NULL;
                END $$;
                CREATE TRIGGER {name} BEFORE {operation} ON {table} EXECUTE FUNCTION {name}();
                """
            )
            yield

            async def used_up() -> bool:
                return bool(await pg.fetchval(f"SELECT last_value > {count} FROM {name}"))

            await eventually(used_up, seconds=60)
            await pg.execute(f"DROP FUNCTION {name} CASCADE; DROP SEQUENCE {name}")

    async def end_one_backend(self) -> None:
        """End the session of some process of ours, in whatever it is doing."""
        async with self.session() as pg:
            await pg.execute(
                """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name LIKE 'waybill %' ORDER BY random() LIMIT 1
                """
            )


@asynccontextmanager
async def own_server(home: Path) -> AsyncIterator[OwnServer]:
    """A running server with this release's schema; what killed runs left behind is removed first."""
    place = prepare(home)
    for folder in place.ground.glob(f"{_PREFIX}*"):
        if not _runs(int(folder.name.removeprefix(_PREFIX))):
            shutil.rmtree(folder, ignore_errors=True)
    embedded = EmbeddedPostgres(place, name=f"{_PREFIX}{os.getpid()}", durable=True)
    async with wire_to("127.0.0.1", 0) as wire:
        try:
            server = OwnServer(embedded, wire)
            await server.start()
            await upgrade(server.url)
            yield server
        finally:
            await asyncio.to_thread(embedded.remove)


def _runs(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False
