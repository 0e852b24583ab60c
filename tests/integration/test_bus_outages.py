"""RabbitMQ killed, frozen, wiped, absent: announcing fails fast, and everything comes back by itself."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from structlog.testing import capture_logs

from deploy.rabbitmq.node import RabbitNode
from shared.broker import link, publishing
from shared.broker.bus import Bus
from shared.broker.messages import Announcement
from shared.broker.rabbit import RabbitBus
from shared.channel import Channel
from shared.errors import PublishUnconfirmed
from shared.ids import EventId, ScopeId
from tests.fakes.buses import DEADLINE_SECONDS, Buses, Received, consuming, listening, new_ids, running_buses
from tests.fakes.wire import wire_to


@pytest.fixture
async def buses(rabbit: RabbitNode, amqp_url: str) -> AsyncIterator[Buses]:
    """Buses on a node of our own that the test may stop."""
    async with running_buses(amqp_url) as buses:
        yield buses
        await asyncio.to_thread(rabbit.thaw)
    await asyncio.to_thread(rabbit.start)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "LONGEST_PAUSE_SECONDS", 0.5)
    monkeypatch.setattr(link, "CONNECT_SECONDS", 2.0)
    monkeypatch.setattr(publishing, "CONFIRM_SECONDS", 2.0)


@pytest.fixture
def short_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent broker is noticed within seconds."""
    monkeypatch.setattr(link, "HEARTBEAT_SECONDS", 1)


@pytest.fixture
async def alarm(rabbit: RabbitNode) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Has the node's memory alarm go off; it is over at the end."""

    async def go_off() -> None:
        await asyncio.to_thread(rabbit.alarm)

    yield go_off
    await asyncio.to_thread(rabbit.all_clear)


def _lost(lines: list[MutableMapping[str, Any]]) -> set[str]:
    """The links that are said to be down."""
    return {line["link"] for line in lines if line["event"] == "broker.down"}


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0.02)


async def _announced(bus: Bus, ids: list[EventId]) -> None:
    """Announce until the broker confirms, as the republisher does."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            try:
                return await bus.announce(ids)
            except PublishUnconfirmed:
                await asyncio.sleep(0.05)


async def _wakes_arrive(bus: Bus, received: Received) -> None:
    """Wake until a wake arrives: those sent before the listener is back are lost, as they may be."""
    scope = frozenset({ScopeId(77)})
    async with asyncio.timeout(DEADLINE_SECONDS):
        while scope not in received.wakes:
            await bus.wake(Channel.EMAIL, scope)
            await asyncio.sleep(0.05)


async def _everything_works(bus: Bus, received: Received) -> None:
    ids = new_ids(3)
    await _announced(bus, ids)
    await received.until(lambda: set(ids) <= set(received.event_ids))
    await _wakes_arrive(bus, received)


def _consuming_and_listening(received: Received) -> Callable[[Bus], None]:
    def register(bus: Bus) -> None:
        consuming(received)(bus)
        listening(received, Channel.EMAIL)(bus)

    return register


def _vhost(amqp_url: str) -> str:
    return unquote(urlsplit(amqp_url).path.removeprefix("/"))


async def test_a_killed_broker_refuses_at_once_and_everything_works_after_its_return(
    rabbit: RabbitNode, buses: Buses
) -> None:
    received = Received()
    (bus,) = await buses.open(_consuming_and_listening(received))
    await _everything_works(bus, received)
    await asyncio.to_thread(rabbit.kill)
    await _until(lambda: not bus.connected)
    with pytest.raises(PublishUnconfirmed, match="no connection"):
        await bus.announce(new_ids(1))
    received.wakes.clear()
    await asyncio.to_thread(rabbit.start)
    await _everything_works(bus, received)


async def test_a_confirmed_announcement_outlives_a_kill(rabbit: RabbitNode, buses: Buses) -> None:
    received, ids = Received(), new_ids(50)
    (bus,) = await buses.open(lambda bus: None)
    await asyncio.gather(*(bus.announce([event_id]) for event_id in ids))
    await asyncio.to_thread(rabbit.kill)
    await asyncio.to_thread(rabbit.start)
    await buses.open(consuming(received))
    await received.until(lambda: set(received.event_ids) == set(ids))


async def test_announcements_in_flight_while_the_broker_dies_are_confirmed_or_refused(
    rabbit: RabbitNode, buses: Buses
) -> None:
    received = Received()
    (bus,) = await buses.open(consuming(received))
    confirmed: list[EventId] = []

    async def announce_until_refused() -> None:
        while True:
            ids = new_ids(1)
            try:
                await bus.announce(ids)
            except PublishUnconfirmed:
                return
            confirmed.extend(ids)

    publishing = asyncio.gather(*(announce_until_refused() for _ in range(20)))
    await received.until(lambda: len(received.announcements) > 100)
    await asyncio.to_thread(rabbit.kill)
    async with asyncio.timeout(DEADLINE_SECONDS):
        await publishing
    await asyncio.to_thread(rabbit.start)
    await received.until(lambda: set(confirmed) <= set(received.event_ids))


async def test_a_frozen_broker_is_refused_after_the_time_limit_and_used_again_when_it_thaws(
    rabbit: RabbitNode, buses: Buses
) -> None:
    received = Received()
    (bus,) = await buses.open(_consuming_and_listening(received))
    await received.until(lambda: bool(received.wakes))
    await asyncio.to_thread(rabbit.freeze)
    with pytest.raises(PublishUnconfirmed, match="TimeoutError"):
        await bus.announce(new_ids(1))
    with pytest.raises(PublishUnconfirmed, match="no connection"):
        await bus.announce(new_ids(1))
    await asyncio.to_thread(rabbit.thaw)
    await _everything_works(bus, received)


async def test_a_broker_that_is_silent_for_longer_than_its_heartbeats_is_used_again_by_both_connections(
    rabbit: RabbitNode, buses: Buses, short_heartbeats: None
) -> None:
    received = Received()
    (bus,) = await buses.open(_consuming_and_listening(received))
    await _everything_works(bus, received)
    with capture_logs() as lines:
        await asyncio.to_thread(rabbit.freeze)
        unconfirmed = await asyncio.gather(
            *(bus.announce([event_id]) for event_id in new_ids(5)), return_exceptions=True
        )
        await _until(lambda: _lost(lines) == {"consume", "publish"})
    assert [type(one) for one in unconfirmed] == [PublishUnconfirmed] * 5
    received.wakes.clear()
    await asyncio.to_thread(rabbit.thaw)
    await _everything_works(bus, received)


async def test_connections_to_the_broker_that_swallow_everything_are_replaced(
    buses: Buses, amqp_url: str, short_heartbeats: None
) -> None:
    parts, received = urlsplit(amqp_url), Received()
    async with wire_to(parts.hostname or "", parts.port or 0) as wire:
        wired = Buses(amqp_url.replace(f":{parts.port}/", f":{wire.port}/"))
        (bus,) = await wired.open(_consuming_and_listening(received))
        await _everything_works(bus, received)
        wire.strand()
        received.wakes.clear()
        await _everything_works(bus, received)
        await wired.stop()


async def test_under_a_memory_alarm_announcing_is_refused_in_time_and_consuming_goes_on(
    rabbit: RabbitNode, buses: Buses, alarm: Callable[[], Awaitable[None]]
) -> None:
    received, ids, alarmed = Received(), new_ids(20), asyncio.Event()

    async def consume(announcement: Announcement) -> None:
        await alarmed.wait()
        await received.consume(announcement)

    (bus,) = await buses.open(lambda bus: bus.on_announced(consume))
    for event_id in ids:
        await bus.announce([event_id])
    await alarm()
    with pytest.raises(PublishUnconfirmed):
        # The first publish of a connection still gets through: it is what has it blocked.
        for event_id in new_ids(3):
            await bus.announce([event_id])
    alarmed.set()
    await received.until(lambda: set(ids) <= set(received.event_ids))
    await asyncio.to_thread(rabbit.all_clear)
    late = new_ids(3)
    await _announced(bus, late)
    await received.until(lambda: set(late) <= set(received.event_ids))


async def test_a_wiped_broker_gets_its_queues_again_from_those_who_use_them(
    rabbit: RabbitNode, buses: Buses, amqp_url: str
) -> None:
    received = Received()
    (bus,) = await buses.open(_consuming_and_listening(received))
    await _everything_works(bus, received)
    await asyncio.to_thread(rabbit.wipe)
    await _until(lambda: not bus.connected)
    received.wakes.clear()
    await asyncio.to_thread(rabbit.start)
    await asyncio.to_thread(rabbit.management.create_vhost, _vhost(amqp_url))
    await _everything_works(bus, received)


async def test_a_publisher_alone_makes_the_queues_that_keep_its_announcements(
    rabbit: RabbitNode, buses: Buses, amqp_url: str
) -> None:
    received, ids = Received(), new_ids(2)
    (bus,) = await buses.open(lambda bus: None)
    await asyncio.to_thread(rabbit.wipe)
    await _until(lambda: not bus.connected)
    await asyncio.to_thread(rabbit.start)
    await asyncio.to_thread(rabbit.management.create_vhost, _vhost(amqp_url))
    await _announced(bus, ids)
    await buses.open(consuming(received))
    await received.until(lambda: received.event_ids == ids)


@pytest.mark.parametrize("deleted", ["queues/{}/waybill.router", "exchanges/{}/waybill.events"])
async def test_a_queue_or_exchange_deleted_by_hand_comes_back_on_a_living_connection(
    rabbit: RabbitNode, buses: Buses, amqp_url: str, deleted: str
) -> None:
    received = Received()
    (bus,) = await buses.open(_consuming_and_listening(received))
    await _everything_works(bus, received)
    await asyncio.to_thread(rabbit.management.call, "DELETE", "/" + deleted.format(_vhost(amqp_url)))
    received.wakes.clear()
    await _everything_works(bus, received)


async def test_a_broker_that_is_down_at_the_start_delays_nothing_but_messages(
    rabbit: RabbitNode, amqp_url: str
) -> None:
    received, ids, stop = Received(), new_ids(1), asyncio.Event()
    await asyncio.to_thread(rabbit.kill)
    bus = RabbitBus(amqp_url)
    _consuming_and_listening(received)(bus)
    back = asyncio.Event()
    bus.on_back(back.set)
    running = asyncio.create_task(bus.run(stop))
    try:
        with pytest.raises(PublishUnconfirmed, match="no connection"):
            await bus.announce(ids)
        await bus.wake(Channel.EMAIL, [ScopeId(1)])
        await asyncio.to_thread(rabbit.start)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await back.wait()
        await bus.announce(ids)
        await received.until(lambda: received.event_ids == ids)
    finally:
        stop.set()
        await running
        await bus.close()


async def test_the_way_back_is_said_after_every_outage(rabbit: RabbitNode, buses: Buses) -> None:
    calls: list[bool] = []
    (bus,) = await buses.open(lambda bus: bus.on_back(lambda: calls.append(bus.connected)))
    assert calls == [True]
    await asyncio.to_thread(rabbit.kill)
    await _until(lambda: not bus.connected)
    await asyncio.to_thread(rabbit.start)
    await _until(lambda: len(calls) == 2)
    assert calls == [True, True]


@pytest.mark.parametrize("state", ["killed", "frozen"])
async def test_a_broker_out_of_order_does_not_hold_up_the_stop(rabbit: RabbitNode, buses: Buses, state: str) -> None:
    received = Received()
    (bus,) = await buses.open(_consuming_and_listening(received))
    await received.until(lambda: bool(received.wakes))
    await asyncio.to_thread(rabbit.kill if state == "killed" else rabbit.freeze)
    await bus.wake(Channel.EMAIL, [ScopeId(1)])
    await buses.stop()


async def test_the_message_in_hand_when_the_connection_breaks_comes_again(rabbit: RabbitNode, buses: Buses) -> None:
    received, ids, release = Received(), new_ids(1), asyncio.Event()

    async def consume(announcement: Announcement) -> None:
        await received.consume(announcement)
        await release.wait()

    (bus,) = await buses.open(lambda bus: bus.on_announced(consume))
    await bus.announce(ids)
    await received.until(lambda: len(received.announcements) == 1)
    await asyncio.to_thread(rabbit.kill)
    release.set()
    await asyncio.to_thread(rabbit.start)
    await received.until(lambda: len(received.announcements) == 2)
    assert received.announcements[1] == Announcement(tuple(ids), redelivered=True)
