"""From announced events to jobs: once each, in few statements, whatever the order of things."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import asyncpg
import pytest

from services.ingest.republisher import Republisher
from services.router.route import Routed, route
from shared.ids import EventId, ScopeId
from shared.store.database import Database
from shared.store.events import insert_if_new
from shared.tenant import Mode
from tests.fakes.buses import Received
from tests.fakes.ingest import apply_model
from tests.fakes.ledger import ledger_mistakes
from tests.fakes.router import Routing, running_router

SENT_TWO_WAYS = [("email", "PENDING", ""), ("inapp", "PENDING", "")]


def heard(received: Received, scope_ids: frozenset[ScopeId]) -> bool:
    return scope_ids in received.wakes


async def test_two_hundred_events_are_routed_in_one_transaction_of_four_statements(database: Database) -> None:
    async with running_router(database) as routing:
        event_ids = await routing.accept(
            *(routing.event(scope_id=routing.scopes[mode]) for mode in Mode for _ in range(100))
        )
        first = await routing.accept(routing.event())
        statements: list[str] = []

        def note(record: asyncpg.connection.LoggedQuery) -> None:
            statements.append(record.query)

        async with database.hot() as pg, pg.transaction():
            # The driver asks for the types of a connection's first arrays.
            await route(pg, routing.tenants, first)
            with pg.query_logger(note):
                routed = await route(pg, routing.tenants, event_ids)
        assert len(routed.made) == 400
        assert routed.ended == {"ROUTED": 200}
        assert len(statements) == 4
        assert await routing.until_over(event_ids) == [("ROUTED", "")] * 200
    assert await ledger_mistakes(database) == []


async def test_a_message_wakes_each_channel_once_with_every_scope(database: Database) -> None:
    async with running_router(database) as routing:
        event_ids = await routing.accept(
            *(routing.event(scope_id=routing.scopes[mode]) for mode in Mode for _ in range(20))
        )
        everyone = frozenset(routing.scopes.values())
        await routing.bus.announce(event_ids)
        for received in routing.woken.values():
            await received.until(partial(heard, received, everyone))
            assert [wake for wake in received.wakes if wake] == [everyone]


async def test_an_event_announced_many_times_at_once_has_its_jobs_once(database: Database) -> None:
    async with running_router(database) as routing:
        event_ids = await routing.accept(*(routing.event() for _ in range(30)))
        await asyncio.gather(*(routing.bus.announce(event_ids, again=bool(turn % 2)) for turn in range(10)))
        await routing.until_over(event_ids)
        for event_id in event_ids:
            assert await routing.jobs(event_id) == SENT_TWO_WAYS
    assert await ledger_mistakes(database) == []


async def test_an_event_whose_type_is_gone_fails_by_name_and_its_neighbours_are_routed(database: Database) -> None:
    async with running_router(database) as routing:
        event_ids = await routing.accept(routing.event(), routing.event("gone"), routing.event())
        await routing.bus.announce(event_ids)
        states = await routing.until_over(event_ids)
    assert states == [("ROUTED", ""), ("FAILED", "unknown_event_type"), ("ROUTED", "")]
    assert await ledger_mistakes(database) == []


async def test_routers_that_meet_in_several_scopes_do_not_wait_for_each_other_crosswise(database: Database) -> None:
    async with running_router(database) as routing:
        live, test = routing.scopes[Mode.LIVE], routing.scopes[Mode.TEST]
        messages = []
        for turn in range(24):
            first, second = (live, test) if turn % 2 else (test, live)
            messages.append(await routing.accept(routing.event("gone", scope_id=first), routing.event(scope_id=second)))

        async def one(message: list[EventId]) -> Routed:
            async with database.hot() as pg, pg.transaction():
                return await route(pg, routing.tenants, message)

        routed = await asyncio.gather(*(one(message) for message in messages))
    assert all(each.ended == {"ROUTED": 1, "FAILED": 1} for each in routed)
    assert await ledger_mistakes(database) == []


async def test_a_message_that_overtakes_its_commit_costs_nothing_but_time(database: Database) -> None:
    async with running_router(database) as routing:
        # Of two scopes: whoever holds a count of the ledger holds up its whole scope.
        event, other = routing.event(), routing.event(scope_id=routing.scopes[Mode.TEST])
        async with database.hot() as pg, pg.transaction():
            await insert_if_new(pg, [event])
            await routing.bus.announce([event.event_id])
            # Announced later, routed: the first message has been taken and found nothing.
            (last,) = await routing.accept(other)
            await routing.bus.announce([last])
            await routing.until_over([last])
        assert await routing.states([event.event_id]) == [("QUEUED", "")]
        republisher = Republisher(database, routing.bus, timedelta(hours=1), timedelta(minutes=2))
        assert await republisher.sweep(datetime.now(UTC) + timedelta(minutes=3)) == 1
        assert await routing.until_over([event.event_id]) == [("ROUTED", "")]
        assert await routing.jobs(event.event_id) == SENT_TWO_WAYS


async def test_a_message_about_what_was_rolled_back_is_simply_gone(database: Database) -> None:
    async with running_router(database) as routing:
        event = routing.event()
        with pytest.raises(ZeroDivisionError):
            async with database.hot() as pg, pg.transaction():
                await insert_if_new(pg, [event])
                await routing.bus.announce([event.event_id])
                raise ZeroDivisionError
        await routing.bus.announce([event.event_id], again=True)
        (last,) = await routing.accept(routing.event())
        await routing.bus.announce([last])
        await routing.until_over([last])
        assert await routing.jobs(event.event_id) == []


async def test_an_event_waits_for_the_file_it_was_accepted_under_and_no_try_is_counted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_router(database) as routing:
        early, good = await routing.accept(routing.event(file_version=2), routing.event())
        await routing.bus.announce([early, good], again=True)
        assert await routing.until_over([good]) == [("ROUTED", "")]
        await apply_again(database, routing)
        assert await routing.until_over([early]) == [("ROUTED", "")]
        assert await routing.tries(early) == 1


async def apply_again(database: Database, routing: Routing) -> None:
    tenant = routing.tenants.of_scope(routing.scopes[Mode.LIVE])
    assert tenant is not None
    await apply_model(database, tenant.tenant)
