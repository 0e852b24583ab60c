"""Postgres restarted, killed, silent, locked, failing under traffic: honest answers, nothing lost, nobody restarted."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.errors import StoreUnavailable
from shared.store.database import Database
from tests.fakes.own_postgres import ENDED, OwnServer, own_server
from tests.fakes.product import STOP_SECONDS, eventually
from tests.fakes.traffic import Traffic, traffic_of
from tests.fakes.wired import SENDERS, Wired, wired_installation

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    "DATABASE_POOL": "2",
    "DATABASE_TIMEOUT": "2s",
    "EMAIL_ATTEMPT_TIMEOUT": "5s",
    "EMAIL_LEASE": "12s",
    "PUSH_ATTEMPT_TIMEOUT": "5s",
    "PUSH_LEASE": "12s",
    "LEASE_MARGIN": "1s",
}
MOST_LINES_A_SECOND = 5


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[OwnServer]:
    """A Postgres of the module's own."""
    async with own_server(ROOT / ".waybill") as server:
        yield server


@pytest.fixture(scope="module")
async def standing(server: OwnServer, vhost_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Wired]:
    """An installation on it."""
    folder = tmp_path_factory.mktemp("installation")
    async with wired_installation(server.url, vhost_url, SETTINGS, folder) as wired:
        yield wired


async def works(database: Database) -> bool:
    """Whether the test's own pool, which is on the same wire, has come back."""
    try:
        async with database.hot() as pg:
            return bool(await pg.fetchval("SELECT true"))
    except StoreUnavailable:
        return False


async def all_delivered(wired: Wired, traffic: Traffic, name: str, *ended: str) -> None:
    """Everything accepted is sent on every channel; once, but for what is flagged. Only ``ended`` have ended."""
    flagged = dict.fromkeys(SENDERS, 0)
    for event_id in traffic.accepted:
        for channel, attempts in (await wired.sent(event_id)).items():
            assert ("delivered", False) in attempts or ("delivered", True) in attempts
            flagged[channel] += sum(is_flagged for _, is_flagged in attempts)
    assert len(set(traffic.accepted)) == len(traffic.accepted)
    await eventually(lambda: works(wired.database))
    got = await (await wired.somebody(name)).got()
    assert got["inapp"] == len(traffic.accepted)
    for channel in ("email", "push"):
        assert len(traffic.accepted) <= got[channel] <= len(traffic.accepted) + flagged[channel]
    await wired.harmed_none_but(*ended)
    assert [name for name, process in wired.installation.processes.items() if "part.failed" in process.text()] == []


async def readiness(wired: Wired, service: str) -> dict[str, Any]:
    async with httpx.AsyncClient(timeout=15) as client:
        answer: dict[str, Any] = (await client.get(f"{wired.process(service).admin_url}/readyz")).json()
        return answer


async def all_ready(wired: Wired) -> None:
    await asyncio.gather(*(process.ready() for process in wired.installation.processes.values()))


def lines_between(wired: Wired, service: str, begin: datetime, end: datetime) -> list[dict[str, Any]]:
    """What a process logged meanwhile."""
    lines = [json.loads(line) for line in wired.process(service).text().splitlines() if line.startswith("{")]
    return [line for line in lines if begin <= datetime.fromisoformat(line["timestamp"]) <= end]


async def test_ten_seconds_without_postgres_are_told_in_a_few_lines(wired: Wired, server: OwnServer) -> None:
    async with traffic_of(await wired.somebody("bob-again")) as traffic:
        await traffic.goes_on()
        began = datetime.now().astimezone()
        await server.stop()

        async def ten_seconds_over() -> bool:
            return (datetime.now().astimezone() - began).total_seconds() > 10

        await eventually(ten_seconds_over)
        ended = datetime.now().astimezone()
        await server.start()
        await traffic.goes_on()
    for service in wired.installation.processes:
        lines = lines_between(wired, service, began, ended)
        assert len(lines) <= MOST_LINES_A_SECOND * 10, [line["event"] for line in lines]
        assert [line["event"] for line in lines].count("postgres.down") == 1
    await all_delivered(wired, traffic, "bob-again")


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_postgres_restarted_under_traffic_needs_no_restart_of_ours_and_loses_nothing(
    wired: Wired, server: OwnServer, how: str
) -> None:
    async with traffic_of(await wired.somebody(f"ann-{how}")) as traffic:
        await traffic.goes_on()
        await (server.stop() if how == "stopped" else server.kill())
        await traffic.is_refused()
        assert set((await readiness(wired, "email"))["failing"]) == {"postgres"}
        await server.start()
        await traffic.goes_on()
    assert set(traffic.answers) == {202, 503}
    await all_ready(wired)
    await all_delivered(wired, traffic, f"ann-{how}")


async def test_connections_that_swallow_everything_are_noticed_in_time_by_every_process(
    wired: Wired, server: OwnServer
) -> None:
    async with traffic_of(await wired.somebody("cyd")) as traffic:
        await traffic.goes_on()
        server.wire.strand()
        await traffic.goes_on(20)
    await all_ready(wired)
    await all_delivered(wired, traffic, "cyd")


async def test_backends_ended_at_random_under_traffic_cost_a_503_at_most(wired: Wired, server: OwnServer) -> None:
    async with traffic_of(await wired.somebody("dan")) as traffic:
        for _ in range(40):
            await server.end_one_backend()
            await traffic.goes_on(1)
    await all_delivered(wired, traffic, "dan")


FAULTS = (ENDED, "40P01", "53100", "25006", "57014")
STATEMENTS = (
    ("INSERT", "events"),  # ingest's flush
    ("INSERT", "outgoing"),  # the router's transaction
    ("UPDATE", "outgoing"),  # claims, entries and settles
    ("INSERT", "attempts"),
    ("INSERT", "inbox"),
)


@pytest.mark.parametrize(("operation", "table"), STATEMENTS)
async def test_a_statement_that_fails_in_every_way_in_its_middle_is_done_again(
    wired: Wired, server: OwnServer, operation: str, table: str
) -> None:
    name = f"eve-{operation}-{table}".lower()
    async with traffic_of(await wired.somebody(name)) as traffic:
        await traffic.goes_on()
        async with server.spoilt(operation, table, *FAULTS):
            await traffic.goes_on()
    await all_delivered(wired, traffic, name)


@pytest.mark.parametrize("table", ["outgoing", "events"])
async def test_a_table_locked_by_somebody_is_answered_in_time_and_leaves_nobody_hanging(
    wired: Wired, server: OwnServer, table: str
) -> None:
    async with traffic_of(await wired.somebody(f"fay-{table}")) as traffic:
        await traffic.goes_on()
        async with server.locked(table):
            if table == "events":
                await traffic.is_refused(4)
            else:
                await traffic.goes_on(20)
        await traffic.goes_on()
    await all_delivered(wired, traffic, f"fay-{table}")


async def test_a_stop_does_not_wait_for_a_postgres_that_is_silent(wired: Wired, server: OwnServer) -> None:
    replicas = ("router-2", "email-2", "inapp-2")
    await wired.start(*replicas)
    async with traffic_of(await wired.somebody("gil")) as traffic:
        await traffic.goes_on()
        server.wire.freeze()
        await traffic.is_refused()
        ended = await asyncio.gather(*(wired.process(name).stop(STOP_SECONDS * 2) for name in replicas))
        server.wire.strand()
        await traffic.goes_on()
    assert ended == [0] * len(replicas)
    await all_delivered(wired, traffic, "gil", *replicas)
