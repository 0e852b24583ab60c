"""What every bus does, whether there is a RabbitMQ in it or not."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from shared import lifecycle
from shared.broker import bus as bus_module
from shared.broker import topology
from shared.broker.messages import MAX_IDS_PER_MESSAGE, Announcement
from shared.channel import Channel
from shared.errors import StoreUnavailable
from shared.ids import ScopeId
from tests.fakes.buses import DEADLINE_SECONDS, Buses, Received, consuming, listening, new_ids, running_buses


@pytest.fixture(params=["local", "rabbit"])
async def buses(request: pytest.FixtureRequest) -> AsyncIterator[Buses]:
    """Running buses of each kind."""
    amqp_url = request.getfixturevalue("amqp_url") if request.param == "rabbit" else None
    async with running_buses(amqp_url) as buses:
        yield buses


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "FIRST_PAUSE_SECONDS", 0.05)


def _scopes(*numbers: int) -> frozenset[ScopeId]:
    return frozenset(ScopeId(number) for number in numbers)


async def test_an_announcement_reaches_the_consumer_once(buses: Buses) -> None:
    received, ids, last = Received(), new_ids(3), new_ids(1)
    (bus,) = await buses.open(consuming(received))
    await bus.announce(ids)
    await bus.announce(last)
    await received.until(lambda: len(received.announcements) == 2)
    assert sorted(received.event_ids) == sorted(ids + last)
    assert not any(announcement.redelivered for announcement in received.announcements)


async def test_many_announcements_reach_the_consumer_each_once(buses: Buses) -> None:
    received, ids = Received(), new_ids(300)
    (bus,) = await buses.open(consuming(received))
    await asyncio.gather(*(bus.announce([event_id]) for event_id in ids))
    await received.until(lambda: len(received.announcements) >= len(ids))
    assert sorted(received.event_ids) == sorted(ids)


async def test_more_ids_than_one_message_takes_come_in_several(buses: Buses) -> None:
    received, ids = Received(), new_ids(MAX_IDS_PER_MESSAGE + 1)
    (bus,) = await buses.open(consuming(received))
    await bus.announce(ids)
    await received.until(lambda: len(received.announcements) == 2)
    assert sorted(received.event_ids) == sorted(ids)


async def test_announcing_nothing_sends_nothing(buses: Buses) -> None:
    received, ids = Received(), new_ids(1)
    (bus,) = await buses.open(consuming(received))
    await bus.announce([])
    await bus.announce(ids)
    await received.until(lambda: bool(received.announcements))
    assert received.announcements == [Announcement(tuple(ids))]


async def test_a_consumer_that_raised_gets_the_message_again_marked_as_redelivered(buses: Buses) -> None:
    received, ids = Received(failures=[RuntimeError("no database"), RuntimeError("still none")]), new_ids(2)
    (bus,) = await buses.open(consuming(received))
    await bus.announce(ids)
    await received.until(lambda: len(received.announcements) == 3)
    assert received.announcements == [Announcement(tuple(ids), redelivered) for redelivered in (False, True, True)]


async def test_an_outage_of_postgres_uses_up_no_delivery(buses: Buses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bus_module, "LONGEST_OUTAGE_REST_SECONDS", 0.01)
    failure_count = topology.DELIVERY_LIMIT + 5
    received, ids = Received([StoreUnavailable("away")] * failure_count), new_ids(2)
    (bus,) = await buses.open(consuming(received))
    await bus.announce(ids)
    await received.until(lambda: len(received.announcements) == failure_count + 1)
    assert set(received.announcements) == {Announcement(tuple(ids))}


async def test_a_failing_message_does_not_hold_up_the_others(buses: Buses) -> None:
    received = Received()
    bad, good = new_ids(1), new_ids(30)
    done: set[str] = set()

    async def consume(announcement: Announcement) -> None:
        await received.consume(announcement)
        if announcement.event_ids[0] == bad[0] and not set(map(str, good)) <= done:
            raise RuntimeError("not yet")
        done.update(map(str, announcement.event_ids))

    (bus,) = await buses.open(lambda bus: bus.on_announced(consume))
    await bus.announce(bad)
    for event_id in good:
        await bus.announce([event_id])
    await received.until(lambda: str(bad[0]) in done)
    assert set(map(str, bad + good)) == done


async def test_a_wake_reaches_every_replica_with_its_scopes(buses: Buses) -> None:
    one, two = Received(), Received()
    bus, _ = await buses.open(listening(one, Channel.EMAIL), listening(two, Channel.EMAIL))
    await one.until(lambda: bool(one.wakes))
    await two.until(lambda: bool(two.wakes))
    await bus.wake(Channel.EMAIL, _scopes(7, 8))
    await one.until(lambda: one.wakes[-1] == _scopes(7, 8))
    await two.until(lambda: two.wakes[-1] == _scopes(7, 8))


async def test_a_listener_is_told_to_look_anywhere_when_its_bus_has_connected(buses: Buses) -> None:
    received = Received()
    await buses.open(listening(received, Channel.INAPP))
    await received.until(lambda: received.wakes == [frozenset()])


async def test_a_wake_stays_on_its_channel(buses: Buses) -> None:
    email, inapp = Received(), Received()
    bus, _ = await buses.open(listening(email, Channel.EMAIL), listening(inapp, Channel.INAPP))
    await email.until(lambda: bool(email.wakes))
    await inapp.until(lambda: bool(inapp.wakes))
    await bus.wake(Channel.EMAIL, _scopes(1))
    await bus.wake(Channel.INAPP, _scopes(2))
    await email.until(lambda: email.wakes[-1] == _scopes(1))
    await inapp.until(lambda: inapp.wakes[-1] == _scopes(2))
    assert _scopes(2) not in email.wakes
    assert _scopes(1) not in inapp.wakes


async def test_many_wakes_become_few_and_the_last_one_arrives(buses: Buses) -> None:
    received, last = Received(), ScopeId(500)
    (bus,) = await buses.open(listening(received, Channel.EMAIL))
    await received.until(lambda: bool(received.wakes))
    for number in range(1, last + 1):
        await bus.wake(Channel.EMAIL, [ScopeId(number)])
    await received.until(lambda: last in received.wakes[-1])
    assert len(received.wakes) < last / 10


async def test_a_wake_without_listeners_is_nobodys_loss(buses: Buses) -> None:
    received, ids = Received(), new_ids(1)
    (bus,) = await buses.open(consuming(received))
    await bus.wake(Channel.PUSH, _scopes(1))
    await bus.announce(ids)
    await received.until(lambda: received.event_ids == ids)
    assert bus.connected


async def test_a_stop_lets_the_message_in_hand_finish(buses: Buses) -> None:
    entered, release, finished = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def consume(_announcement: Announcement) -> None:
        entered.set()
        await release.wait()
        finished.set()

    (bus,) = await buses.open(lambda bus: bus.on_announced(consume))
    await bus.announce(new_ids(1))
    async with asyncio.timeout(DEADLINE_SECONDS):
        await entered.wait()
        stopping = asyncio.create_task(buses.stop())
        release.set()
        await stopping
    assert finished.is_set()


async def test_a_stop_does_not_wait_out_the_pause_after_a_failure(
    buses: Buses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "FIRST_PAUSE_SECONDS", 15 * DEADLINE_SECONDS)
    monkeypatch.setattr(lifecycle, "LONGEST_PAUSE_SECONDS", 15 * DEADLINE_SECONDS)
    received = Received(failures=[RuntimeError("no database")])
    (bus,) = await buses.open(consuming(received))
    await bus.announce(new_ids(1))
    await received.until(lambda: bool(received.announcements))
    await buses.stop()
