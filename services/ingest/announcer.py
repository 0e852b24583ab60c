"""Tells the router of accepted events: after their commit, beside the answers, never in their way."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable

from shared.broker.bus import Bus
from shared.errors import PublishUnconfirmed, StoreUnavailable
from shared.ids import EventId
from shared.lifecycle import any_set
from shared.logs import get_logger
from shared.store.announcing import mark_announced_if_queued
from shared.store.database import Database

log = get_logger()

IDS_PER_MESSAGE = 200
"""The router routes a message in one transaction; a longer one would hold its locks too long."""
MOST_KEPT = 100_000
"""Ids kept through an outage, about 20 MB; the republisher finds what is beyond."""
TRY_AGAIN_SECONDS = 1.0


class Announcer:
    """Gathers ids while a message is under way and sends them with the next; keeps those that were not confirmed."""

    def __init__(self, bus: Bus, database: Database) -> None:
        self._bus = bus
        self._database = database
        self._fresh: deque[EventId] = deque(maxlen=MOST_KEPT)
        self._unconfirmed: deque[EventId] = deque(maxlen=MOST_KEPT)
        self._wanted = asyncio.Event()
        self._back = asyncio.Event()
        bus.on_back(self._back.set)

    def announce_soon(self, event_ids: Iterable[EventId]) -> None:
        """Have these events announced. Returns at once and never fails."""
        self._fresh.extend(event_ids)
        self._wanted.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Announce until ``stop``, then once more what is left."""
        while not stop.is_set():
            await any_set(self._wanted, stop)
            self._wanted.clear()
            while await self._announce_some():
                pass
            if self._unconfirmed:
                await self._pause(stop)
                self._wanted.set()

    async def _announce_some(self) -> bool:
        """Whether a message was confirmed; False also when there was nothing to send."""
        late = [self._unconfirmed.popleft() for _ in range(min(len(self._unconfirmed), IDS_PER_MESSAGE))]
        fresh = [self._fresh.popleft() for _ in range(min(len(self._fresh), IDS_PER_MESSAGE - len(late)))]
        if not late and not fresh:
            return False
        self._back.clear()
        try:
            await self._bus.announce(late + fresh)
        except PublishUnconfirmed as exc:
            if not late:
                log.warning("announcement.unconfirmed", events=len(fresh), error=str(exc))
            self._unconfirmed.extend(late + fresh)
            return False
        if late:
            await self._mark(late)
        return True

    async def _mark(self, late: list[EventId]) -> None:
        with contextlib.suppress(StoreUnavailable):
            # Not marked, they are announced once more than needed.
            async with self._database.hot() as pg:
                await mark_announced_if_queued(pg, late)

    async def _pause(self, stop: asyncio.Event) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TRY_AGAIN_SECONDS):
                await any_set(self._back, stop)
