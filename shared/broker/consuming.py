"""What a process takes from RabbitMQ: announcements, with explicit acknowledgement, and wakes."""

import asyncio
from collections.abc import Awaitable, Callable

from faststream import AckPolicy
from faststream.message import StreamMessage
from faststream.rabbit import Channel as AmqpChannel
from faststream.rabbit import RabbitBroker, RabbitExchange, RabbitMessage, RabbitQueue

from shared.broker import topology
from shared.broker.bus import Consume, Rest, Woken, is_outage
from shared.broker.link import Link, Lost
from shared.broker.messages import Announcement, Undecodable, decode_announcement, decode_wake
from shared.channel import Channel
from shared.ids import ScopeId
from shared.lifecycle import failure_of
from shared.logs import get_logger
from shared.metrics import announcements_unreadable, wakes

log = get_logger()


class Consumer:
    """The consuming connection of a process, with whatever was registered before it runs."""

    def __init__(self, url: str) -> None:
        self._link = Link(url, "consume", self._prepare, self._look_anywhere)
        self._consume: Consume | None = None
        self._woken: dict[Channel, list[Woken]] = {}
        self._rest = Rest()

    def on_announced(self, consume: Consume) -> None:
        """Let ``consume`` have every announcement."""
        self._consume = consume

    def on_wake(self, channel: Channel, woken: Woken) -> None:
        """Call ``woken`` with the scopes of each wake."""
        self._woken.setdefault(channel, []).append(woken)

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until ``stop``, then finish what is in hand."""
        if self._consume is None and not self._woken:
            await stop.wait()
            return
        await self._link.run(stop)

    async def _prepare(self, broker: RabbitBroker, lost: Lost) -> None:
        queues = []
        if self._consume is not None:
            dead = await broker.declare_exchange(topology.DEAD_LETTERS)
            await (await broker.declare_queue(topology.ROUTER_DEAD)).bind(dead)
            queues.append(topology.ROUTER)
            self._subscribe(
                broker, topology.ROUTER, topology.EVENTS, topology.announcement_prefetch(), self._route(self._consume)
            )
        wake_channel = topology.wake_prefetch()
        for channel in self._woken:
            queue = topology.wake_queue(channel)
            queues.append(queue)
            self._subscribe(broker, queue, topology.wake_exchange(channel), wake_channel, self._wake_up(channel))
        await broker.start()
        for queue in queues:
            amqp_channel = (await broker.declare_queue(queue)).channel
            amqp_channel.close_callbacks.add(lost)
            (await amqp_channel.get_underlay_channel()).on_consumer_cancel_callbacks.add(lost)

    def _subscribe(
        self,
        broker: RabbitBroker,
        queue: RabbitQueue,
        exchange: RabbitExchange,
        channel: AmqpChannel,
        take: Callable[[RabbitMessage], Awaitable[None]],
    ) -> None:
        subscriber = broker.subscriber(
            queue, exchange, channel=channel, ack_policy=AckPolicy.MANUAL, no_reply=True, decoder=_undecoded
        )
        subscriber(take)
        # FastStream says so only after the broker's answer, and leaves unacknowledged what it is given before.
        subscriber.running = True

    def _route(self, consume: Consume) -> Callable[[RabbitMessage], Awaitable[None]]:
        async def take(message: RabbitMessage) -> None:
            if self._link.ending:
                return
            with self._link.work():
                try:
                    announcement = decode_announcement(message.body, bool(message.raw_message.redelivered))
                except Undecodable as exc:
                    announcements_unreadable.inc()
                    log.error("announcement.unreadable", message_id=message.message_id, reason=str(exc))
                    await message.reject(requeue=False)
                else:
                    await self._settle(message, announcement, await self._consumed(consume, announcement))

        return take

    async def _consumed(self, consume: Consume, announcement: Announcement) -> BaseException | None:
        """How ``consume`` failed, if it did. An outage of Postgres is sat out with the message in hand.

        Back in the queue it would use up the deliveries that it has before it is taken for dead.
        """
        failure = await failure_of(consume(announcement))
        while is_outage(failure) and not self._link.ending:
            pause = self._rest.seconds(failure)
            log.debug("announcement.waits", events=len(announcement.event_ids), again_in_s=pause, error=str(failure))
            await self._link.pause(pause)
            if not self._link.ending:
                failure = await failure_of(consume(announcement))
        return failure

    async def _settle(self, message: RabbitMessage, announcement: Announcement, failure: BaseException | None) -> None:
        if failure is None:
            self._rest.over()
            await message.ack()
            return
        if not is_outage(failure):
            pause = self._rest.seconds(failure)
            log.warning("announcement.failed", events=len(announcement.event_ids), again_in_s=pause, exc_info=failure)
            # Back in the queue at once it would be here again in a millisecond.
            await self._link.pause(pause)
        await message.nack(requeue=True)

    def _wake_up(self, channel: Channel) -> Callable[[RabbitMessage], Awaitable[None]]:
        async def take(message: RabbitMessage) -> None:
            await message.ack()
            wakes.labels(channel, "received").inc()
            try:
                self._call_woken(channel, decode_wake(message.body))
            except Undecodable as exc:
                log.error("wake.unreadable", channel=channel, reason=str(exc))

        return take

    def _call_woken(self, channel: Channel, scope_ids: frozenset[ScopeId]) -> None:
        for woken in self._woken[channel]:
            woken(scope_ids)

    def _look_anywhere(self) -> None:
        """Say that wakes may have been missed: the queue that now exists is a new one."""
        for channel in self._woken:
            self._call_woken(channel, frozenset())


async def _undecoded(message: StreamMessage[object]) -> StreamMessage[object]:
    """The message itself: FastStream would decode the body before anyone could reject what is unreadable."""
    return message
