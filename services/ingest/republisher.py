"""Announces again what was announced in vain: the floor under every lost message."""

import asyncio
import contextlib
import math
import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeAlias

from services.ingest.announcer import IDS_PER_MESSAGE
from shared.broker.bus import Bus
from shared.errors import PublishUnconfirmed, StoreUnavailable
from shared.ids import EventId
from shared.lifecycle import any_set
from shared.logs import get_logger
from shared.store.announcing import lock_queued_before, lock_unrouted, mark_announced_again, read_clock
from shared.store.database import Database, HotConnection

log = get_logger()

MOST_A_SWEEP = 10_000
JITTER = 0.2

Find: TypeAlias = Callable[[HotConnection], Awaitable[list[EventId]]]
"""Locks the next events to announce, 200 at most."""


class Republisher:
    """Sweeps for events that stay QUEUED; any number of them may run, they skip what another one holds."""

    def __init__(self, database: Database, bus: Bus, every: timedelta, again_after: timedelta) -> None:
        self._database = database
        self._bus = bus
        self._every = every
        self._again_after = again_after
        self._back = asyncio.Event()
        bus.on_back(self._back.set)

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep at start, when the bus is back, and at every interval until ``stop``."""
        forgotten = not self._bus.outlives_process
        while not stop.is_set():
            self._back.clear()
            try:
                announced = await (self.announce_forgotten() if forgotten else self.sweep())
                forgotten = False
                if announced:
                    log.warning("republisher.announced_again", events=announced)
            except (StoreUnavailable, PublishUnconfirmed) as exc:
                log.debug("republisher.waits", error=str(exc))
            await self._pause(stop)

    async def sweep(self, now: datetime | None = None) -> int:
        """How many events were announced again, and confirmed. Raises PublishUnconfirmed and StoreUnavailable."""
        return await self._announce_all(
            lambda pg: lock_unrouted(pg, self._again_after, IDS_PER_MESSAGE, now), MOST_A_SWEEP, now
        )

    async def announce_forgotten(self) -> int:
        """How many events were QUEUED before now and are announced at once: all of them.

        For the start on a bus that forgets: whatever told of them went down with the process before this one.
        """
        async with self._database.hot() as pg:
            before = await read_clock(pg)
        return await self._announce_all(lambda pg: lock_queued_before(pg, before, IDS_PER_MESSAGE))

    async def _announce_all(self, find: Find, most: float = math.inf, now: datetime | None = None) -> int:
        total = 0
        while total < most and self._bus.connected:
            announced = await self._announce_some(find, now)
            total += announced
            if announced < IDS_PER_MESSAGE:
                break
        return total

    async def _announce_some(self, find: Find, now: datetime | None) -> int:
        # The rows stay locked until the message is confirmed: another replica skips them, and what was not
        # confirmed is not counted. Nobody but a router or a cancel waits for them, for seconds at the worst.
        async with self._database.hot() as pg, pg.transaction():
            unrouted = await find(pg)
            if unrouted:
                await self._bus.announce(unrouted, again=True)
                await mark_announced_again(pg, unrouted, now)
        return len(unrouted)

    async def _pause(self, stop: asyncio.Event) -> None:
        seconds = self._every.total_seconds() * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await any_set(self._back, stop)
