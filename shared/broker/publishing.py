"""What a process sends to RabbitMQ: announcements, each confirmed, and wakes, gathered and best effort."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from uuid import uuid4

from faststream.rabbit import RabbitBroker, RabbitExchange
from pamqp.commands import Basic

from shared.broker import topology
from shared.broker.link import Link, Lost
from shared.broker.messages import encode_announcement, encode_wake, in_messages
from shared.channel import Channel
from shared.errors import PublishUnconfirmed
from shared.ids import EventId, ScopeId
from shared.lifecycle import any_set, failure_of
from shared.metrics import announcements, wakes

CONFIRM_SECONDS = 5.0
WAKE_SECONDS = 2.0
MAX_SCOPES_PER_WAKE = 1000


class Publisher:
    """The publishing connection of a process: never shared with a consumer, which an alarm would stop as well."""

    def __init__(self, url: str, up: Callable[[], None]) -> None:
        self._link = Link(url, "publish", self._prepare, up, topology.confirmed())
        self._to_wake: dict[Channel, set[ScopeId]] = {}
        self._wakes_waiting = asyncio.Event()

    @property
    def connected(self) -> bool:
        """Whether the broker took a message when it was last asked."""
        return self._link.broker is not None

    async def announce(self, event_ids: Sequence[EventId], *, again: bool = False) -> None:
        """Publish the announcement and wait for its confirmation; PublishUnconfirmed within five seconds."""
        for ids in in_messages(event_ids):
            try:
                body = encode_announcement(ids, again=again)
                await self._publish(body, topology.EVENTS, topology.ANNOUNCEMENT, CONFIRM_SECONDS, persist=True)
            except PublishUnconfirmed:
                announcements.labels("unconfirmed").inc()
                raise
            announcements.labels("confirmed").inc()

    def wake(self, channel: Channel, scope_ids: Collection[ScopeId]) -> None:
        """Send a wake as soon as the one before is through; what comes meanwhile goes with it."""
        self._to_wake.setdefault(channel, set()).update(scope_ids)
        self._wakes_waiting.set()

    async def run(self, closing: asyncio.Event) -> None:
        """Keep the connection up until ``closing``; wakes that wait then still go out."""
        hang_up = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._link.run(hang_up))
            while not closing.is_set():
                await any_set(self._wakes_waiting, closing)
                await self._send_wakes()
            hang_up.set()

    async def _prepare(self, broker: RabbitBroker, lost: Lost) -> None:
        await broker.start()
        events = await broker.declare_exchange(topology.EVENTS)
        dead = await broker.declare_exchange(topology.DEAD_LETTERS)
        await (await broker.declare_queue(topology.ROUTER_DEAD)).bind(dead)
        await (await broker.declare_queue(topology.ROUTER)).bind(events, topology.ANNOUNCEMENT)
        for channel in Channel:
            await broker.declare_exchange(topology.wake_exchange(channel))
        events.channel.close_callbacks.add(lost)
        # Under a memory or disk alarm all of the above succeeds, and one message: it is what blocks the connection.
        for _ in range(2):
            await broker.publish(b"", exchange=topology.EVENTS, routing_key=topology.PROBE, mandatory=False)

    async def _send_wakes(self) -> None:
        self._wakes_waiting.clear()
        to_wake, self._to_wake = self._to_wake, {}
        for channel, scope_ids in to_wake.items():
            body = encode_wake(scope_ids if len(scope_ids) <= MAX_SCOPES_PER_WAKE else ())
            try:
                await self._publish(body, topology.wake_exchange(channel), "", WAKE_SECONDS, persist=False)
            except PublishUnconfirmed:
                wakes.labels(channel, "lost").inc()
            else:
                wakes.labels(channel, "sent").inc()

    async def _publish(
        self, body: bytes, exchange: RabbitExchange, routing_key: str, seconds: float, *, persist: bool
    ) -> None:
        broker = self._link.broker
        if broker is None:
            raise PublishUnconfirmed("there is no connection to the broker")

        async def confirmed() -> None:
            # FastStream drops its own timeout parameter, and aio-pika waits for ever while the broker is blocked.
            async with asyncio.timeout(seconds):
                answer = await broker.publish(
                    body,
                    exchange=exchange,
                    routing_key=routing_key,
                    persist=persist,
                    mandatory=persist,
                    message_id=uuid4().hex,
                    content_type="application/json",
                )
            if not isinstance(answer, Basic.Ack):
                raise PublishUnconfirmed(f"the broker answered {answer!r}")

        failure = await failure_of(confirmed())
        if failure is not None:
            # What failed once may look connected and be frozen, blocked or without its queues: begin anew.
            self._link.distrust(broker, failure)
            raise PublishUnconfirmed(f"not confirmed: {type(failure).__name__} {failure}") from failure
