"""Events that routing fails on: bounded tries, a reason to be seen, and neighbours that notice nothing."""

import tracemalloc
from collections.abc import AsyncIterator, Iterator, MutableMapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from services.ingest.republisher import Republisher
from services.router.consumer import TRIES
from services.router.route import route
from shared import lifecycle
from shared.ids import EventId, format_event_id
from shared.store.database import Database
from shared.store.routing import count_try_if_seen, find_suspects
from tests.fakes.ledger import ledger_mistakes
from tests.fakes.router import UNREADABLE, Routing, event_type, running_router

RAISES = event_type("raises", title="{{ payload.missing }}")
LOOP = "{% for i in (1..1000) %}{{ payload.long }}{% endfor %}"
HUGE = event_type("huge", body=LOOP * 10)
"""With a payload of 20 kB it would render 200 MB."""
BAD_ENTRY = [("email", "PENDING", ""), ("inapp", "FAILED", "template_error")]
BOTH = [("email", "PENDING", ""), ("inapp", "PENDING", "")]


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[MutableMapping[str, Any]]]:
    """What was logged; drawing every traceback would take longer than everything else."""
    monkeypatch.setattr(lifecycle, "FIRST_PAUSE_SECONDS", 0.02)
    with capture_logs() as lines:
        yield lines


@pytest.fixture(params=["local", "rabbit"])
async def routing(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[Routing]:
    amqp_url = request.getfixturevalue("amqp_url") if request.param == "rabbit" else None
    async with running_router(database, RAISES, HUGE, amqp_url=amqp_url) as running:
        yield running


async def test_a_template_that_raises_or_never_ends_fails_its_channel_and_nothing_else(routing: Routing) -> None:
    payload = '{"long":"%s"}' % ("x" * 20_000)
    events = [routing.event("raises"), routing.event("huge", payload=payload), *(routing.event() for _ in range(20))]
    event_ids = await routing.accept(*events)
    await routing.bus.announce(event_ids)
    assert await routing.until_over(event_ids) == [("ROUTED", "")] * len(events)
    for event_id, expected in zip(event_ids, [BAD_ENTRY, BAD_ENTRY] + [BOTH] * 20, strict=True):
        assert await routing.jobs(event_id) == expected
        assert await routing.tries(event_id) == 0
    assert await ledger_mistakes(routing.database) == []


async def test_an_event_that_raises_is_failed_after_five_tries_and_its_neighbours_are_routed(
    routing: Routing, lines: list[MutableMapping[str, Any]]
) -> None:
    before, poison, after = await routing.accept(routing.event(), routing.event(recipient=UNREADABLE), routing.event())
    await routing.bus.announce([before, poison, after])
    states = await routing.until_over([before, poison, after])
    assert states == [("ROUTED", ""), ("FAILED", "routing_failed"), ("ROUTED", "")]
    assert await routing.tries(poison) == TRIES
    assert await routing.jobs(poison) == []
    told = [line for line in lines if line["event"] in ("router.event_failed", "router.gave_up")]
    assert [line["event"] for line in told] == ["router.event_failed"] * TRIES + ["router.gave_up"]
    assert {line["event_id"] for line in told} == {format_event_id(poison)}
    for neighbour in (before, after):
        assert await routing.jobs(neighbour) == BOTH
    assert await ledger_mistakes(routing.database) == []
    republisher = Republisher(routing.database, routing.bus, timedelta(hours=1), timedelta(minutes=2))
    assert await republisher.sweep(datetime.now(UTC) + timedelta(days=1)) == 0


async def test_what_the_republisher_announces_is_tried_alone_and_counted(routing: Routing) -> None:
    poison, good = await routing.accept(routing.event(recipient=UNREADABLE), routing.event())
    republisher = Republisher(routing.database, routing.bus, timedelta(hours=1), timedelta(minutes=2))
    assert await republisher.sweep(datetime.now(UTC) + timedelta(minutes=3)) == 2
    assert await routing.until_over([poison, good]) == [("FAILED", "routing_failed"), ("ROUTED", "")]
    assert await routing.tries(good) == 1


async def test_many_poisonous_messages_do_not_keep_good_ones_waiting_for_ever(routing: Routing) -> None:
    poison = await routing.accept(*(routing.event(recipient=UNREADABLE) for _ in range(12)))
    good = await routing.accept(*(routing.event() for _ in range(12)))
    for bad_one, good_one in zip(poison, good, strict=True):
        await routing.bus.announce([bad_one])
        await routing.bus.announce([good_one])
    assert await routing.until_over(good) == [("ROUTED", "")] * 12
    assert await routing.until_over(poison) == [("FAILED", "routing_failed")] * 12


async def begin_tries(database: Database, event_id: EventId, count: int) -> None:
    """``count`` tries that ended with their process: counted, and nothing else written."""
    for _ in range(count):
        async with database.hot() as pg:
            (suspect,) = await find_suspects(pg, [event_id])
            assert await count_try_if_seen(pg, suspect)


async def test_an_event_that_five_routers_died_over_is_not_given_to_a_sixth(database: Database) -> None:
    async with running_router(database) as routing:
        killer, good = await routing.accept(routing.event(), routing.event())
        await begin_tries(database, killer, TRIES)
        await routing.bus.announce([killer, good], again=True)
        assert await routing.until_over([killer, good]) == [("FAILED", "routing_failed"), ("ROUTED", "")]
        assert await routing.jobs(killer) == []


async def test_what_killed_its_router_comes_after_its_neighbours(database: Database) -> None:
    async with running_router(database) as routing:
        killer, good = await routing.accept(routing.event(), routing.event())
        await begin_tries(database, killer, 1)
        async with database.hot() as pg:
            suspects = await find_suspects(pg, [killer, good])
        assert [(one.event_id, one.tries) for one in suspects] == [(good, 0), (killer, 1)]


async def test_a_count_that_a_stalled_database_takes_late_counts_once(database: Database) -> None:
    async with running_router(database) as routing:
        (event_id,) = await routing.accept(routing.event())
        async with database.hot() as pg:
            (suspect,) = await find_suspects(pg, [event_id])
            assert [await count_try_if_seen(pg, suspect) for _ in range(3)] == [True, False, False]
        assert await routing.tries(event_id) == 1


async def test_what_would_render_two_hundred_megabytes_takes_hardly_any_memory(database: Database) -> None:
    async with running_router(database, HUGE) as routing:
        payload = '{"long":"%s"}' % ("x" * 20_000)
        event_ids = await routing.accept(*(routing.event("huge", payload=payload) for _ in range(5)))
        tracemalloc.start()
        try:
            async with database.hot() as pg, pg.transaction():
                await route(pg, routing.tenants, event_ids)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 20_000_000
