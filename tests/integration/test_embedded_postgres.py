"""The embedded Postgres: what it promises, and what it survives."""

import os
import signal
import subprocess
import sys
import tempfile
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from shared.errors import CannotStart
from shared.store.embedded import EmbeddedPostgres
from shared.store.place import Place, prepare
from tests.waiting import is_running, wait_until

OWNER = """
import sys, time
from pathlib import Path
from shared.store.embedded import EmbeddedPostgres
from shared.store.place import prepare
server = EmbeddedPostgres(prepare(Path(sys.argv[1])))
print(server.start(), server.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def place() -> Iterator[Place]:
    """A place of this test's own, where the servers' user can work whoever runs the suite."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)
        yield prepare(Path(folder) / ".waybill")


@pytest.fixture
def server(place: Place) -> Iterator[EmbeddedPostgres]:
    """A server as `waybill up` runs it, not started yet; impatient where another one holds its folder."""
    server = EmbeddedPostgres(place, handover_seconds=0.2)
    yield server
    server.stop()


async def ask(url: str, *statements: str) -> Any:
    """What the last of the statements says, all on one connection of their own."""
    connection = await asyncpg.connect(url, timeout=30)
    try:
        for statement in statements:
            answer = await connection.fetchval(statement)
        return answer
    finally:
        await connection.close()


async def test_rows_outlive_a_stop(server: EmbeddedPostgres) -> None:
    await ask(server.start(), "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (7)")
    server.stop()
    assert not server.alive()
    assert await ask(server.start(), "SELECT n FROM kept") == 7


async def test_it_is_set_as_promised(server: EmbeddedPostgres) -> None:
    url = server.start()
    settings = {
        "fsync": "on",
        "jit": "off",
        "max_connections": "200",
        "shared_preload_libraries": "pg_stat_statements",
        "server_encoding": "UTF8",
        "listen_addresses": "127.0.0.1",
        "password_encryption": "scram-sha-256",
        "TimeZone": "UTC",
    }
    for name, value in settings.items():
        assert await ask(url, f"SHOW {name}") == value, name
    assert await ask(url, "SELECT datlocprovider::text FROM pg_database WHERE datname = current_database()") == "b"


async def test_nobody_gets_in_without_the_password(server: EmbeddedPostgres) -> None:
    url = server.start()
    before, _, rest = url.partition("@")
    guessed = f"{before.rpartition(':')[0]}:guessed@{rest}"
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(guessed, timeout=30)


async def test_a_second_starter_is_told_who_has_the_folder(place: Place, server: EmbeddedPostgres) -> None:
    url = server.start()
    second = EmbeddedPostgres(place, handover_seconds=0.2)
    with pytest.raises(CannotStart, match="in use by another waybill"):
        second.start()
    assert await ask(url, "SELECT 1") == 1


async def test_kill_minus_nine_of_the_owner_leaves_no_postgres_and_the_next_start_works(place: Place) -> None:
    owner = await create_subprocess_exec(sys.executable, "-c", OWNER, str(place.home), stdout=PIPE)
    assert owner.stdout is not None
    url, pid = (await owner.stdout.readline()).decode().split()
    await ask(url, "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (7)")
    owner.kill()
    await owner.wait()
    next_server = EmbeddedPostgres(place)
    try:
        url = next_server.start()
        assert not is_running(int(pid))
        assert await ask(url, "SELECT n FROM kept") == 7
    finally:
        next_server.stop()


async def test_a_crashed_postmaster_shows_and_recovers_at_the_next_start(server: EmbeddedPostgres) -> None:
    await ask(server.start(), "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (7)")
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: not server.alive())
    server.stop()
    assert await ask(server.start(), "SELECT n FROM kept") == 7


async def test_a_pid_file_naming_somebody_elses_process_is_not_believed(place: Place, server: EmbeddedPostgres) -> None:
    server.start()
    server.stop()
    user = None if place.account is None else place.account.user_id
    bystander = subprocess.Popen(["sleep", "600"], user=user)  # noqa: ASYNC220 - it takes a user, the loop's may not
    pid_file = place.ground / "postgres" / "cluster" / "postmaster.pid"
    pid_file.write_text(f"{bystander.pid}\n{pid_file.parent}\n1700000000\n5432\n\n127.0.0.1\n")
    assert await ask(server.start(), "SELECT 1") == 1
    bystander.kill()
    bystander.wait(10)


async def test_a_start_killed_during_initdb_is_begun_again(place: Place, server: EmbeddedPostgres) -> None:
    unfinished = place.ground / "postgres" / "cluster.new"
    unfinished.mkdir(parents=True)
    (unfinished / "PG_VERSION").write_text("18\n")
    (place.ground / "postgres" / "password.new").write_text("half")
    assert await ask(server.start(), "SELECT 1") == 1
    assert not unfinished.exists()


def test_data_of_another_postgres_is_named_with_what_to_do(place: Place, server: EmbeddedPostgres) -> None:
    cluster = place.ground / "postgres" / "cluster"
    cluster.mkdir(parents=True)
    (cluster / "PG_VERSION").write_text("17\n")
    with pytest.raises(CannotStart, match=r"Postgres 17, this release brings Postgres 18: .*make clean"):
        server.start()


def test_a_server_that_cannot_run_says_why_in_one_line(place: Place, server: EmbeddedPostgres) -> None:
    server.start()
    server.stop()
    with (place.ground / "postgres" / "cluster" / "postgresql.conf").open("a") as configuration:
        configuration.write("no_such_setting = on\n")
    with pytest.raises(CannotStart, match=r"(?s)\APostgres ended at once: [^\n]+\Z"):
        server.start()
