"""Running buses for tests, and a consumer that remembers what it was given."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from shared.broker.bus import Bus
from shared.broker.local import LocalBus
from shared.broker.messages import Announcement
from shared.broker.rabbit import RabbitBus
from shared.channel import Channel
from shared.ids import EventId, ScopeId, new_event_id

DEADLINE_SECONDS = 60.0
"""Far more than anything takes: it ends a test that would hang, it measures nothing."""


def new_ids(count: int) -> list[EventId]:
    """``count`` fresh event ids."""
    return [new_event_id() for _ in range(count)]


class Received:
    """What a consumer or a listener was given, in order; its first calls raise what ``failures`` holds."""

    def __init__(self, failures: list[Exception] | None = None) -> None:
        self.announcements: list[Announcement] = []
        self.wakes: list[frozenset[ScopeId]] = []
        self._failures = deque(failures or [])
        self._changed = asyncio.Event()

    async def consume(self, announcement: Announcement) -> None:
        """Remember the announcement, then fail or not."""
        self.announcements.append(announcement)
        self._changed.set()
        if self._failures:
            raise self._failures.popleft()

    def woken(self, scope_ids: frozenset[ScopeId]) -> None:
        """Remember the wake."""
        self.wakes.append(scope_ids)
        self._changed.set()

    @property
    def event_ids(self) -> list[EventId]:
        """Every event announced so far, repeats included."""
        return [event_id for announcement in self.announcements for event_id in announcement.event_ids]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until ``condition``, which is asked whenever something arrived."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Buses:
    """Buses of one kind, all on the same broker: of RabbitMQ one per ``open``, in process one for all."""

    def __init__(self, amqp_url: str | None) -> None:
        self._amqp_url = amqp_url
        self._stop = asyncio.Event()
        self._running: list[tuple[Bus, asyncio.Task[None]]] = []

    async def open(self, *registers: Callable[[Bus], None]) -> list[Bus]:
        """One bus per entry of ``registers``, which is called with it before it runs; all are connected."""
        buses: list[Bus] = []
        for register in registers:
            bus = buses[0] if buses and self._amqp_url is None else self._new()
            register(bus)
            buses.append(bus)
        for bus in dict.fromkeys(buses):
            back = asyncio.Event()
            bus.on_back(back.set)
            self._running.append((bus, asyncio.create_task(bus.run(self._stop))))
            async with asyncio.timeout(DEADLINE_SECONDS):
                await back.wait()
        return buses

    async def stop(self) -> None:
        """Stop and close them all."""
        self._stop.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            for bus, task in self._running:
                await task
                await bus.close()

    def _new(self) -> Bus:
        return LocalBus() if self._amqp_url is None else RabbitBus(self._amqp_url)


@asynccontextmanager
async def running_buses(amqp_url: str | None) -> AsyncIterator[Buses]:
    """Buses on ``amqp_url``, or in process when it is None."""
    buses = Buses(amqp_url)
    try:
        yield buses
    finally:
        await buses.stop()


def consuming(received: Received) -> Callable[[Bus], None]:
    """Register ``received`` as the router's consumer."""
    return lambda bus: bus.on_announced(received.consume)


def listening(received: Received, channel: Channel) -> Callable[[Bus], None]:
    """Register ``received`` as a sender of ``channel``."""
    return lambda bus: bus.on_wake(channel, received.woken)
