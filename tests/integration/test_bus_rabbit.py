"""What only a bus with a real broker in it can do wrong."""

import asyncio
from collections.abc import AsyncIterator

import aio_pika
import msgspec
import pytest
from structlog.testing import capture_logs

from deploy.rabbitmq.node import RabbitNode
from shared.broker.messages import MAX_IDS_PER_MESSAGE, Announcement, encode_announcement
from shared.channel import Channel
from shared.metrics import REGISTRY
from tests.fakes.buses import DEADLINE_SECONDS, Buses, Received, consuming, listening, new_ids, running_buses


@pytest.fixture
async def buses(amqp_url: str) -> AsyncIterator[Buses]:
    """Buses on a vhost of this test's own."""
    async with running_buses(amqp_url) as buses:
        yield buses


@pytest.fixture
async def amqp(amqp_url: str) -> AsyncIterator[aio_pika.abc.AbstractChannel]:
    """A channel for what only a stranger would do."""
    async with await aio_pika.connect(amqp_url) as connection:
        yield await connection.channel()


async def _publish(amqp: aio_pika.abc.AbstractChannel, exchange: str, key: str, body: bytes) -> None:
    message = aio_pika.Message(body, content_type="application/json")
    await (await amqp.get_exchange(exchange)).publish(message, key)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"\xff\xfe",
        b'{"v": 2, "event_ids": []}',
        b'{"v": 1, "event_ids": ["x"]}',
        b'{"v": 1}',
        b"[" * 10_000,
        encode_announcement(new_ids(1) * (MAX_IDS_PER_MESSAGE + 1)),
    ],
)
async def test_an_unreadable_announcement_is_set_aside_and_its_neighbours_are_routed(
    buses: Buses, amqp: aio_pika.abc.AbstractChannel, body: bytes
) -> None:
    received, ids = Received(), new_ids(1)
    unreadable_before = _unreadable()
    (bus,) = await buses.open(consuming(received))
    await _publish(amqp, "waybill.events", "announcement", body)
    await bus.announce(ids)
    await received.until(lambda: received.event_ids == ids)
    dead = await amqp.get_queue("waybill.router.dead")
    async with asyncio.timeout(DEADLINE_SECONDS), dead.iterator() as letters:
        letter = await anext(letters)
        await letter.ack()
    assert letter.body == body
    assert _unreadable() == unreadable_before + 1


def _unreadable() -> float:
    return REGISTRY.get_sample_value("waybill_announcements_unreadable_total") or 0.0


async def test_an_unreadable_wake_is_dropped_and_the_next_one_arrives(
    buses: Buses, amqp: aio_pika.abc.AbstractChannel
) -> None:
    received = Received()
    await buses.open(listening(received, Channel.EMAIL))
    await received.until(lambda: received.wakes == [frozenset()])
    await _publish(amqp, "waybill.wake.email", "", b"what?")
    await _publish(amqp, "waybill.wake.email", "", msgspec.json.encode({"v": 1, "scope_ids": [5]}))
    await received.until(lambda: received.wakes == [frozenset(), frozenset({5})])


async def test_announcements_that_waited_for_a_router_all_reach_it(buses: Buses) -> None:
    received, ids = Received(), new_ids(60)
    (bus,) = await buses.open(lambda bus: None)
    await asyncio.gather(*(bus.announce([event_id]) for event_id in ids))
    await buses.open(consuming(received))
    await received.until(lambda: len(received.event_ids) >= len(ids))
    assert sorted(received.event_ids) == sorted(ids)


async def test_two_routers_share_the_announcements(buses: Buses) -> None:
    one, two, ids = Received(), Received(), new_ids(100)
    bus, _ = await buses.open(consuming(one), consuming(two))

    async def consumed() -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(one.event_ids) + len(two.event_ids) < len(ids):
                await asyncio.sleep(0.01)

    await asyncio.gather(*(bus.announce([event_id]) for event_id in ids))
    await consumed()
    assert sorted(one.event_ids + two.event_ids) == sorted(ids)
    assert one.event_ids
    assert two.event_ids


async def test_what_a_stopping_router_did_not_finish_goes_to_another(amqp_url: str) -> None:
    received, ids, entered = Received(), new_ids(1), asyncio.Event()

    async def hang(_announcement: Announcement) -> None:
        entered.set()
        await asyncio.Event().wait()

    async with running_buses(amqp_url) as first:
        (bus,) = await first.open(lambda bus: bus.on_announced(hang))
        await bus.announce(ids)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await entered.wait()
    async with running_buses(amqp_url) as second:
        await second.open(consuming(received))
        await received.until(lambda: bool(received.announcements))
    assert received.announcements == [Announcement(tuple(ids), redelivered=True)]


async def test_a_queue_with_other_arguments_is_named_with_its_mend(
    amqp: aio_pika.abc.AbstractChannel, amqp_url: str
) -> None:
    await amqp.declare_queue("waybill.router", durable=True)
    with capture_logs() as lines:
        async with running_buses(amqp_url) as buses:
            opening = asyncio.create_task(buses.open(lambda bus: None))
            async with asyncio.timeout(DEADLINE_SECONDS):
                while not any(line["event"] == "broker.down" for line in lines):
                    await asyncio.sleep(0.01)
                await (await amqp.get_queue("waybill.router")).delete()
                (bus,) = await opening
            await bus.announce(new_ids(1))
    (down,) = (line for line in lines if line["event"] == "broker.down")
    assert "waybill.router" in down["reason"]
    assert down["mend"].startswith("delete the queue")


async def test_the_default_vhost_works_too(rabbit: RabbitNode, amqp_url: str) -> None:
    received, ids = Received(), new_ids(1)
    async with running_buses(rabbit.url) as buses:
        (bus,) = await buses.open(consuming(received))
        await bus.announce(ids)
        await received.until(lambda: set(ids) <= set(received.event_ids))
