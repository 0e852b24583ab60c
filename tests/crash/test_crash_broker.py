"""RabbitMQ killed, frozen, alarmed, wiped: everything accepted is delivered all the same, and no process restarted."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from deploy.rabbitmq.node import RabbitNode
from tests.fakes.amqp import amqp_peer
from tests.fakes.product import eventually
from tests.fakes.wired import ONCE, SENDERS, Wired

POST_COUNT = 20


@pytest.fixture(autouse=True)
async def _broker_again(rabbit: RabbitNode) -> AsyncIterator[None]:
    """The broker is up for whoever comes next."""
    yield
    await asyncio.to_thread(rabbit.thaw)
    await asyncio.to_thread(rabbit.start)
    await asyncio.to_thread(rabbit.all_clear)


async def test_a_killed_broker_delays_no_202_and_nothing_needs_a_restart(wired: Wired, rabbit: RabbitNode) -> None:
    nan = await wired.somebody("nan")
    await asyncio.to_thread(rabbit.kill)
    event_ids = [await nan.accepted() for _ in range(POST_COUNT)]
    # Messages only hurry: nobody is to be taken out of service for want of a broker.
    await asyncio.gather(*(process.ready() for process in wired.installation.processes.values()))
    await asyncio.to_thread(rabbit.start)
    for event_id in event_ids:
        assert await wired.sent(event_id) == ONCE
    assert await nan.got() == dict.fromkeys(SENDERS, POST_COUNT)
    await wired.harmed_none_but()


async def test_a_frozen_broker_delays_no_202_and_everything_goes_out_when_it_thaws(
    wired: Wired, rabbit: RabbitNode
) -> None:
    pia = await wired.somebody("pia")
    await asyncio.to_thread(rabbit.freeze)
    # Waiting for the broker's word would take five seconds an event.
    async with asyncio.timeout(45):
        event_ids = [await pia.accepted() for _ in range(POST_COUNT)]
    await asyncio.to_thread(rabbit.thaw)
    for event_id in event_ids:
        assert await wired.sent(event_id) == ONCE
    assert await pia.got() == dict.fromkeys(SENDERS, POST_COUNT)
    await wired.harmed_none_but()


async def test_under_a_memory_alarm_202s_come_in_normal_time_and_the_events_go_out_after_it(
    wired: Wired, rabbit: RabbitNode
) -> None:
    quin = await wired.somebody("quin")
    await asyncio.to_thread(rabbit.alarm)
    async with asyncio.timeout(45):
        event_ids = [await quin.accepted() for _ in range(POST_COUNT)]
    await asyncio.to_thread(rabbit.all_clear)
    for event_id in event_ids:
        assert await wired.sent(event_id) == ONCE
    assert await quin.got() == dict.fromkeys(SENDERS, POST_COUNT)
    await wired.harmed_none_but()


async def test_a_wiped_broker_loses_no_queued_event_and_no_pending_job(wired: Wired, rabbit: RabbitNode) -> None:
    ora = await wired.somebody("ora")
    for sender in SENDERS:
        wired.process(sender).freeze()
    pending = await ora.accepted()

    async def routed() -> bool:
        return len(await wired.job_ids(pending, "PENDING")) == len(SENDERS)

    await eventually(routed)
    await wired.wires.router_to_broker.cut()
    async with amqp_peer(wired.urls.broker) as broker:
        announced = await ora.accepted()
        await broker.until_waiting(1)
    await asyncio.to_thread(rabbit.stop)
    await asyncio.to_thread(rabbit.wipe)
    unannounced = await ora.accepted()
    for sender in SENDERS:
        wired.process(sender).thaw()
    await asyncio.to_thread(rabbit.start)
    await asyncio.to_thread(rabbit.create_vhost, urlsplit(wired.urls.broker).path.removeprefix("/"))
    await wired.wires.router_to_broker.mend()
    for event_id in (pending, announced, unannounced):
        assert await wired.sent(event_id) == ONCE
    assert await ora.got() == dict.fromkeys(SENDERS, 3)
    async with amqp_peer(wired.urls.broker) as broker:
        assert await broker.routers_queue() == (0, 1)
    await wired.harmed_none_but()
