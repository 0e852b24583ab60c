"""The pool in every outage of Postgres: a clear error within its time, and the next caller served as soon as can be."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from shared.errors import StoreConflict, StoreRefuses, StoreUnavailable
from shared.store import outage
from shared.store.database import Database
from tests.fakes.product import eventually
from tests.fakes.wire import Wire, wire_to

PATIENCE = timedelta(seconds=1)
AWAY = ("08006", "25006", "25P03", "53000", "53100", "53200", "53300", "57014", "57P01", "57P02", "57P03", "58030")
OURS = ("22P02", "23505", "42P01", "42601")
"""The statement's own faults: no waiting mends them."""
AGAIN = ("40001", "40P01", "55P03")


@asynccontextmanager
async def pool(url: str, pool_size: int = 5) -> AsyncIterator[Database]:
    """A pool of the test's own."""
    database = Database(url, pool_size=pool_size, within=PATIENCE)
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture
async def wire(database_url: str) -> AsyncIterator[Wire]:
    """A wire to the test's Postgres."""
    parts = urlsplit(database_url)
    async with wire_to(parts.hostname or "", parts.port or 0) as wire:
        yield wire


@pytest.fixture
async def wired(database_url: str, wire: Wire) -> AsyncIterator[Database]:
    """A pool over that wire."""
    async with pool(database_url.replace(f":{urlsplit(database_url).port}/", f":{wire.port}/")) as database:
        yield database


async def works(database: Database) -> bool:
    """Whether both ways to use the pool do."""
    async with database.hot() as pg:
        assert await pg.fetchval("SELECT 1") == 1
    async with database.begin() as connection:
        return bool((await connection.execute(text("SELECT 1"))).scalar() == 1)


@asynccontextmanager
async def all_taken(database: Database, count: int) -> AsyncIterator[None]:
    """All ``count`` connections of the pool are made and in use at once, and given back at the end."""
    taken, release = asyncio.Barrier(count + 1), asyncio.Event()

    async def take() -> None:
        async with database.hot(timedelta(seconds=30)) as pg:
            await pg.fetchval("SELECT 1")
            await taken.wait()
            await release.wait()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(take())
        await taken.wait()
        yield
        release.set()


async def raise_in_hot(database: Database, state: str) -> None:
    async with database.hot() as pg:
        await pg.execute(f"DO $$ BEGIN RAISE EXCEPTION 'so it is' USING ERRCODE = '{state}'; END $$")


async def raise_in_transaction(database: Database, state: str) -> None:
    async with database.begin() as connection:
        await connection.execute(text(f"DO $$ BEGIN RAISE EXCEPTION 'so it is' USING ERRCODE = '{state}'; END $$"))


@pytest.mark.parametrize("use", [raise_in_hot, raise_in_transaction])
async def test_what_postgres_says_of_itself_is_an_outage_and_what_it_says_of_a_statement_is_not(
    database: Database, use: Callable[[Database, str], Any]
) -> None:
    for state in AWAY:
        with pytest.raises(StoreUnavailable, match="so it is") as caught:
            await use(database, state)
        assert not isinstance(caught.value, StoreConflict), state
    for state in AGAIN:
        with pytest.raises(StoreConflict, match="so it is"):
            await use(database, state)
    for state in OURS:
        with pytest.raises(Exception, match="so it is") as caught_other:
            await use(database, state)
        assert not isinstance(caught_other.value, StoreUnavailable), state
    assert await works(database)


async def test_of_two_transactions_in_a_deadlock_one_is_told_to_come_again(database: Database) -> None:
    async with database.hot() as pg:
        await pg.execute("CREATE TABLE rows (id int PRIMARY KEY); INSERT INTO rows VALUES (1), (2)")
    met = asyncio.Barrier(2)

    async def lock(first: int, second: int) -> None:
        async with database.hot() as pg, pg.transaction():
            await pg.execute("SELECT FROM rows WHERE id = $1 FOR UPDATE", first)
            await met.wait()
            await pg.execute("SELECT FROM rows WHERE id = $1 FOR UPDATE", second)

    ended = await asyncio.gather(lock(1, 2), lock(2, 1), return_exceptions=True)
    assert sorted(type(one).__name__ for one in ended) == ["NoneType", "StoreConflict"]
    assert await works(database)


async def test_connections_to_a_server_that_only_reads_are_not_used_again(
    database_url: str, database: Database
) -> None:
    name = urlsplit(database_url).path.removeprefix("/")
    async with database.hot() as pg:
        await pg.execute("CREATE TABLE things (n int)")
        await pg.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    async with pool(database_url) as failed_over, all_taken(failed_over, 5):
        pass
    async with pool(database_url) as failed_over:
        async with all_taken(failed_over, 5):
            async with database.hot() as pg:
                await pg.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")

        async def written() -> bool:
            try:
                async with failed_over.hot() as pg:
                    await pg.execute("INSERT INTO things VALUES (1)")
            except StoreUnavailable:
                return False
            return True

        # What was connected before the new primary was there cannot write, what connects now can.
        outcomes = [await written() for _ in range(7)]
        assert outcomes.count(False) <= 5
        assert outcomes[-1]


async def test_a_server_with_no_room_for_another_connection_is_an_outage_until_it_has(
    database_url: str, database: Database
) -> None:
    parts = urlsplit(database_url)
    role = f"crowd_{parts.path.removeprefix('/')}"
    as_role = parts._replace(netloc=f"{role}:secret@{parts.hostname}:{parts.port}").geturl()
    async with database.hot() as pg:
        await pg.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'secret' CONNECTION LIMIT 1")
    try:
        async with pool(as_role) as first, pool(as_role) as second:
            async with all_taken(first, 1):
                pass
            with pytest.raises(StoreUnavailable, match="too many connections"):
                await works(second)
            await first.close()
            assert await eventually(lambda: soon(second))
    finally:
        async with database.hot() as pg:
            await pg.execute(f"DROP ROLE {role}")


async def soon(database: Database) -> bool:
    try:
        return await works(database)
    except StoreUnavailable:
        return False


async def test_a_password_that_no_longer_fits_is_an_outage_of_its_own_kind(database_url: str) -> None:
    parts = urlsplit(database_url)
    wrong = parts._replace(netloc=f"{parts.username}:wrong@{parts.hostname}:{parts.port}").geturl()
    async with pool(wrong) as database:
        with pytest.raises(StoreRefuses, match="password"):
            await works(database)


async def test_an_exhausted_pool_refuses_in_time_and_serves_again(database_url: str) -> None:
    async with pool(database_url, pool_size=1) as database:

        async def refused() -> float:
            began = time.monotonic()
            with pytest.raises(StoreUnavailable):
                await works(database)
            return time.monotonic() - began

        async with all_taken(database, 1):
            waits = await asyncio.gather(*(refused() for _ in range(20)))
        assert min(waits) >= PATIENCE.total_seconds() * 0.9
        assert await works(database)
        assert await asyncio.gather(*(works(database) for _ in range(20))) == [True] * 20


@asynccontextmanager
async def table_locked(url: str, table: str) -> AsyncIterator[None]:
    """Somebody else holds ``table``."""
    connection = await asyncpg.connect(url, timeout=30)
    try:
        await connection.execute(f"BEGIN; LOCK TABLE {table}")
        yield
    finally:
        await connection.close(timeout=10)


async def test_who_waited_in_vain_for_a_lock_leaves_nobody_waiting_in_the_server(
    database_url: str, database: Database
) -> None:
    async def waiting() -> int:
        async with database.hot() as pg:
            return int(await pg.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))

    async def nobody_waits() -> bool:
        return await waiting() == 0

    async with pool(database_url) as impatient, table_locked(database_url, "outgoing"):

        async def count() -> None:
            with pytest.raises(StoreUnavailable, match="did not answer"):
                async with impatient.hot(timedelta(seconds=0.3)) as pg, pg.transaction():
                    await pg.fetchval("SELECT count(*) FROM outgoing")

        for _ in range(3):
            await asyncio.gather(*(count() for _ in range(5)))
        await eventually(nobody_waits, seconds=8)
        # The pool is whole: it is the table that is locked, not the server.
        assert await works(impatient)


async def ask(database: Database) -> None:
    async with database.hot() as pg:
        await pg.fetchval("SELECT 1")


async def ask_in_transaction(database: Database) -> None:
    async with database.hot() as pg, pg.transaction():
        await pg.fetchval("SELECT 1")


async def ask_by_sqlalchemy(database: Database) -> None:
    async with database.begin() as connection:
        await connection.execute(text("SELECT 1"))


@pytest.mark.parametrize("use", [ask, ask_in_transaction, ask_by_sqlalchemy])
async def test_a_silent_server_is_given_up_once_its_time_is_over_and_no_rollback_waits_longer(
    wire: Wire, wired: Database, use: Callable[[Database], Any]
) -> None:
    await use(wired)
    wire.freeze()
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await use(wired)
    # A rollback over the same connection would have waited for as long again.
    assert time.monotonic() - began < 2 * PATIENCE.total_seconds()
    wire.thaw()
    await eventually(lambda: soon(wired))


async def test_the_middle_of_a_transaction_is_given_up_assoon(wire: Wire, wired: Database) -> None:
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        async with wired.hot() as pg, pg.transaction():
            await pg.fetchval("SELECT 1")
            wire.freeze()
            await pg.fetchval("SELECT 2")
    assert time.monotonic() - began < 2 * PATIENCE.total_seconds()
    wire.thaw()
    await eventually(lambda: soon(wired))


async def test_after_one_connection_fell_silent_the_others_are_not_waited_for_one_by_one(
    wire: Wire, wired: Database
) -> None:
    async with all_taken(wired, 5):
        pass
    wire.strand()
    with pytest.raises(StoreUnavailable):
        await works(wired)
    # Four more lead nowhere, and nobody has to find out with a statement of his own.
    assert await asyncio.gather(*(works(wired) for _ in range(5))) == [True] * 5


@pytest.mark.parametrize("users", [1, 5, 20])
async def test_connections_that_the_server_has_ended_are_noticed_before_they_are_used(
    wired: Database, database: Database, users: int
) -> None:
    async with all_taken(wired, 5):
        pass
    async with database.hot() as pg:
        ended = """
            SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
        """
        assert [row[0] for row in await pg.fetch(ended)][:5] == [True] * 5
    await eventually(lambda: soon(wired))
    assert all(await asyncio.gather(*(works(wired) for _ in range(users))))


async def test_whoever_has_more_patience_than_the_pool_is_given_it(database_url: str) -> None:
    async with pool(database_url) as database:
        async with database.hot(PATIENCE * 30) as pg:
            assert await pg.fetchval("SELECT true FROM pg_sleep($1)", PATIENCE.total_seconds() * 1.5)


async def test_an_outage_is_said_once_when_it_begins_and_once_when_it_ends(
    wire: Wire, wired: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage, "CALM_SECONDS", 0.5)
    await works(wired)
    with capture_logs() as lines:
        await wire.cut()
        for _ in range(20):
            with pytest.raises(StoreUnavailable):
                await works(wired)
        await wire.mend()

        async def said_both() -> bool:
            await works(wired)
            return len(lines) > 1

        await eventually(said_both)
    assert [line["event"] for line in lines] == ["postgres.down", "postgres.up"]
    assert lines[1]["failures"] == 20
