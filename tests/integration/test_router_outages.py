"""The router while Postgres is away, silent or locked: nothing is held against an event, and it goes on by itself."""

from collections.abc import AsyncIterator, MutableMapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from structlog.testing import capture_logs

from services.router.consumer import TRIES
from shared.broker import bus
from shared.store.database import Database
from tests.factories import until
from tests.fakes.ledger import ledger_mistakes
from tests.fakes.router import Routing, running_router
from tests.fakes.wire import Wire, wire_to

BOTH = [("email", "PENDING", ""), ("inapp", "PENDING", "")]
IMPATIENT = timedelta(seconds=0.3)


@pytest.fixture(autouse=True)
def _restless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus, "LONGEST_OUTAGE_REST_SECONDS", 0.02)


@pytest.fixture
async def wire(database_url: str) -> AsyncIterator[Wire]:
    """A wire to the test's Postgres."""
    parts = urlsplit(database_url)
    async with wire_to(parts.hostname or "", parts.port or 0) as wire:
        yield wire


@pytest.fixture
async def impatient(database_url: str, wire: Wire) -> AsyncIterator[Database]:
    """A pool over the wire that gives up soon."""
    url = database_url.replace(f":{urlsplit(database_url).port}/", f":{wire.port}/")
    database = Database(url, pool_size=4, within=IMPATIENT)
    yield database
    await database.close()


@pytest.fixture(params=["local", "rabbit"])
async def routing(request: pytest.FixtureRequest, impatient: Database) -> AsyncIterator[Routing]:
    amqp_url = request.getfixturevalue("amqp_url") if request.param == "rabbit" else None
    async with running_router(impatient, amqp_url=amqp_url) as running:
        yield running


def waits(lines: list[MutableMapping[str, Any]]) -> int:
    return sum(line["event"] == "announcement.waits" for line in lines)


@pytest.mark.parametrize("again", [False, True])
async def test_a_table_locked_for_longer_than_five_tries_fails_no_event(
    routing: Routing, database_url: str, database: Database, again: bool
) -> None:
    event_ids = await routing.accept(routing.event(), routing.event())
    holder = await asyncpg.connect(database_url, timeout=30)
    try:
        await holder.execute("BEGIN; LOCK TABLE outgoing")
        with capture_logs() as lines:
            await routing.bus.announce(event_ids, again=again)
            await until(lambda: waits(lines) > TRIES + 1)
    finally:
        await holder.close(timeout=10)
    assert await routing.until_over(event_ids) == [("ROUTED", "")] * 2
    assert [await routing.jobs(event_id) for event_id in event_ids] == [BOTH] * 2
    assert max([await routing.tries(event_id) for event_id in event_ids]) <= 1
    assert "announcement.failed" not in {line["event"] for line in lines}
    assert await ledger_mistakes(database) == []


async def test_announcements_that_come_while_postgres_is_silent_are_routed_when_it_speaks_again(
    routing: Routing, wire: Wire, database: Database
) -> None:
    event_ids = await routing.accept(*(routing.event() for _ in range(20)))
    wire.freeze()
    with capture_logs() as lines:
        for event_id in event_ids:
            await routing.bus.announce([event_id])
        await until(lambda: waits(lines) > 20)
        # What was connected is lost for good, as when a firewall has forgotten it.
        wire.strand()
    assert await routing.until_over(event_ids) == [("ROUTED", "")] * 20
    assert [await routing.jobs(event_id) for event_id in event_ids] == [BOTH] * 20
    assert await ledger_mistakes(database) == []
