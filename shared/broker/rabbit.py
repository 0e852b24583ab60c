"""The bus over RabbitMQ: one connection to publish, one to consume, both kept for ever."""

import asyncio
from collections.abc import Callable, Collection, Sequence

from shared.broker.bus import Consume, Woken
from shared.broker.consuming import Consumer
from shared.broker.publishing import Publisher
from shared.channel import Channel
from shared.ids import EventId, ScopeId

CLOSE_SECONDS = 3.0


class RabbitBus:
    """A process's end of the bus at ``url``."""

    def __init__(self, url: str) -> None:
        self._back: list[Callable[[], None]] = []
        self._publisher = Publisher(url, self._call_back)
        self._consumer = Consumer(url)
        self._closing = asyncio.Event()
        self._publishing: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        """Whether the broker took a message when it was last asked."""
        return self._publisher.connected

    @property
    def outlives_process(self) -> bool:
        """Whether announcements wait in RabbitMQ meanwhile: they do."""
        return True

    async def announce(self, event_ids: Sequence[EventId], *, again: bool = False) -> None:
        """Publish the announcement and wait for its confirmation.

        PublishUnconfirmed after five seconds at the latest, at once while there is no connection.
        """
        await self._publisher.announce(event_ids, again=again)

    async def wake(self, channel: Channel, scope_ids: Collection[ScopeId]) -> None:
        """Send a wake in the background."""
        self._publisher.wake(channel, scope_ids)

    def on_announced(self, consume: Consume) -> None:
        """Let ``consume`` have every announcement."""
        self._consumer.on_announced(consume)

    def on_wake(self, channel: Channel, woken: Woken) -> None:
        """Call ``woken`` with the scopes of each wake."""
        self._consumer.on_wake(channel, woken)

    def on_back(self, back: Callable[[], None]) -> None:
        """Call ``back`` whenever announcing has become possible."""
        self._back.append(back)

    async def run(self, stop: asyncio.Event) -> None:
        """Connect, and connect again for ever; consuming ends with ``stop``, publishing with ``close``."""
        if self._publishing is None or self._publishing.done():
            self._publishing = asyncio.create_task(self._publisher.run(self._closing))
        consuming = asyncio.create_task(self._consumer.run(stop))
        try:
            await asyncio.wait({self._publishing, consuming}, return_when=asyncio.FIRST_COMPLETED)
            if self._publishing.done():
                self._publishing.result()
            await consuming
        finally:
            consuming.cancel()

    async def close(self) -> None:
        """Send the wakes that wait and hang up."""
        self._closing.set()
        if self._publishing is not None:
            await asyncio.wait({self._publishing}, timeout=CLOSE_SECONDS)
            self._publishing.cancel()

    def _call_back(self) -> None:
        for back in self._back:
            back()
