"""Somebody else on the product's virtual host, who publishes the product's own messages and looks into its queues."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aio_pika
from aio_pika.abc import AbstractConnection

from shared.broker import topology
from shared.broker.messages import encode_announcement, encode_wake
from shared.channel import Channel
from shared.ids import ScopeId, parse_event_id
from tests.fakes.product import eventually

ANSWER_SECONDS = 30


class AmqpPeer:
    """One connection of ours."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection

    async def announce(self, event_id: str, times: int) -> None:
        """Have the same announcement delivered ``times`` times."""
        channel = await self._connection.channel()
        events = await channel.get_exchange(topology.EVENTS.name)
        announced = parse_event_id(event_id)
        assert announced is not None
        body = encode_announcement([announced])
        message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        for _ in range(times):
            await events.publish(message, topology.ANNOUNCEMENT, timeout=ANSWER_SECONDS)

    async def wake(self, channel: Channel, scope_ids: list[ScopeId], times: int) -> None:
        """Have the same wake sent to the senders of ``channel`` ``times`` times."""
        wakes = await (await self._connection.channel()).get_exchange(topology.wake_exchange(channel).name)
        for _ in range(times):
            await wakes.publish(aio_pika.Message(encode_wake(scope_ids)), "", timeout=ANSWER_SECONDS)

    async def routers_queue(self) -> tuple[int, int]:
        """How many announcements nobody has taken yet, and how many consumers there are."""
        # A channel of its own: where there is no such queue it is closed.
        channel = await self._connection.channel()
        result = (await channel.declare_queue(topology.ROUTER.name, passive=True)).declaration_result
        return int(result.message_count or 0), int(result.consumer_count or 0)

    async def until_waiting(self, count: int) -> None:
        """Return once ``count`` announcements wait for a router to take them."""

        async def waiting() -> bool:
            return (await self.routers_queue())[0] >= count

        await eventually(waiting)

    async def until_taken(self) -> None:
        """Return once no announcement waits for a router."""

        async def taken() -> bool:
            return (await self.routers_queue())[0] == 0

        await eventually(taken)


@asynccontextmanager
async def amqp_peer(url: str) -> AsyncIterator[AmqpPeer]:
    """A connection to the virtual host at ``url``."""
    async with await aio_pika.connect(url, timeout=ANSWER_SECONDS) as connection:
        yield AmqpPeer(connection)
