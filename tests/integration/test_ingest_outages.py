"""What a product sees when Postgres or the broker is away, and that nothing is lost by it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from shared.broker.local import LocalBus
from shared.errors import PublishUnconfirmed
from shared.ids import EventId, parse_event_id
from shared.store.database import Database
from shared.tenant import Mode
from tests.factories import until
from tests.fakes.ingest import Ingest, body, running_ingest
from tests.fakes.wire import Wire, wire_to


class LooseBus(LocalBus):
    """The bus of one process, to be taken down and up again."""

    def __init__(self) -> None:
        super().__init__()
        self.down = False

    @property
    def connected(self) -> bool:
        """Whether it is up."""
        return not self.down

    async def announce(self, event_ids: Sequence[EventId], *, again: bool = False) -> None:
        """Announce, or say that nobody confirmed."""
        if self.down:
            raise PublishUnconfirmed("the broker is down")
        await super().announce(event_ids, again=again)


@pytest.fixture
async def wired(database_url: str) -> AsyncIterator[tuple[Wire, Ingest]]:
    parts = urlsplit(database_url)
    assert parts.hostname
    assert parts.port
    async with wire_to(parts.hostname, parts.port) as wire:
        url = database_url.replace(f":{parts.port}/", f":{wire.port}/")
        database = Database(url, within=timedelta(seconds=2))
        try:
            async with running_ingest(database, database_timeout=timedelta(seconds=2)) as ingest:
                assert (await ingest.live.get("/api/v1/metrics")).status_code == 200
                yield wire, ingest
                wire.thaw()
        finally:
            await database.close()


async def test_without_postgres_every_answer_is_503_and_says_when_to_come_back(wired: tuple[Wire, Ingest]) -> None:
    wire, ingest = wired
    await wire.cut()
    posted = await ingest.live.post("/api/v1/events", json=body())
    asked = await ingest.test.get("/api/v1/metrics")
    for answer in (posted, asked):
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert int(answer.headers["Retry-After"]) > 0
    await wire.mend()
    assert (await ingest.live.post("/api/v1/events", json=body())).status_code == 202


async def test_a_silent_postgres_is_not_waited_for_long_and_the_same_key_is_safe(wired: tuple[Wire, Ingest]) -> None:
    wire, ingest = wired
    wire.freeze()
    # The client itself gives up after five seconds: the 503 comes well before.
    answer = await ingest.live.post("/api/v1/events", json=body())
    assert answer.status_code == 503
    wire.thaw()
    again = await ingest.live.post("/api/v1/events", json=body())
    assert again.status_code == 202
    assert await ingest.count("events") == 1


async def test_when_the_only_connection_hangs_everybody_is_answered_in_time_and_nobody_is_lost(
    database_url: str, database: Database
) -> None:
    posts = [body(idempotency_key=f"k{n}") for n in range(50)]
    hurried = Database(database_url, pool_size=1, within=timedelta(seconds=2))
    async with running_ingest(hurried, database_timeout=timedelta(seconds=2)) as ingest:
        async with database.hot() as holder, holder.transaction():
            await holder.execute("LOCK TABLE events")
            # The client itself gives up after five seconds.
            answers = await asyncio.gather(*(ingest.live.post("/api/v1/events", json=post) for post in posts))
        assert {answer.status_code for answer in answers} == {503}
        assert min(int(answer.headers["Retry-After"]) for answer in answers) > 0
        for post in posts:
            answer = await ingest.live.post("/api/v1/events", json=post)
            while answer.status_code == 503:
                answer = await ingest.live.post("/api/v1/events", json=post)
            assert answer.status_code == 202
    async with database.hot() as pg:
        assert await pg.fetchval("SELECT count(*) FROM events") == len(posts)
    await hurried.close()


async def test_without_the_broker_events_are_accepted_and_announced_once_it_is_back(database: Database) -> None:
    bus = LooseBus()
    async with running_ingest(database, bus) as ingest:
        bus.down = True
        answers = [await ingest.live.post("/api/v1/events", json=body(idempotency_key=f"k{n}")) for n in range(5)]
        assert [answer.status_code for answer in answers] == [202] * 5
        assert ingest.announced == []
        bus.down = False
        wanted = {parse_event_id(answer.json()["id"]) for answer in answers}
        await until(lambda: set(ingest.announced) == wanted)
        assert len(ingest.announced) == 5


async def test_a_tenant_whose_file_is_not_known_yet_is_asked_to_wait(database: Database) -> None:
    async with running_ingest(database) as ingest:
        async with database.hot() as pg:
            await pg.execute("UPDATE tenants SET file_version = 0")
        await ingest.tenants.refresh()
        answer = await ingest.live.post("/api/v1/events", json=body())
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert ingest.scopes.keys() == set(Mode)
