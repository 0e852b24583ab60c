"""Announces again what was announced in vain: the floor under every lost message."""

import asyncio
import contextlib
import random
from datetime import datetime, timedelta

from services.ingest.announcer import IDS_PER_MESSAGE
from shared.broker.bus import Bus
from shared.errors import PublishUnconfirmed, StoreUnavailable
from shared.lifecycle import any_set
from shared.logs import get_logger
from shared.store.announcing import lock_unrouted, mark_announced_again
from shared.store.database import Database

log = get_logger()

MOST_A_SWEEP = 10_000
JITTER = 0.2


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
        while not stop.is_set():
            self._back.clear()
            try:
                announced = await self.sweep()
                if announced:
                    log.warning("republisher.announced_again", events=announced)
            except (StoreUnavailable, PublishUnconfirmed) as exc:
                log.warning("republisher.waits", error=str(exc))
            await self._pause(stop)

    async def sweep(self, now: datetime | None = None) -> int:
        """How many events were announced again, and confirmed. Raises PublishUnconfirmed and StoreUnavailable."""
        total = 0
        while total < MOST_A_SWEEP and self._bus.connected:
            announced = await self._announce_some(now)
            total += announced
            if announced < IDS_PER_MESSAGE:
                break
        return total

    async def _announce_some(self, now: datetime | None) -> int:
        # The rows stay locked until the message is confirmed: another replica skips them, and what was not
        # confirmed is not counted. Nobody but a router or a cancel waits for them, for seconds at the worst.
        async with self._database.hot() as pg, pg.transaction():
            unrouted = await lock_unrouted(pg, self._again_after, IDS_PER_MESSAGE, now)
            if unrouted:
                await self._bus.announce(unrouted, again=True)
                await mark_announced_again(pg, unrouted, now)
        return len(unrouted)

    async def _pause(self, stop: asyncio.Event) -> None:
        seconds = self._every.total_seconds() * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await any_set(self._back, stop)
