"""Turns scheduled events whose time has come into queued ones."""

import asyncio
from datetime import datetime

from services.ingest.announcer import Announcer
from shared.errors import StoreUnavailable
from shared.lifecycle import stopped_within
from shared.logs import get_logger
from shared.store.announcing import promote_due
from shared.store.database import Database

log = get_logger()

LOOK_EVERY_SECONDS = 1.0
MOST_AT_ONCE = 1000


class Promoter:
    """Looks every second; any number of them may run, they skip what another one holds."""

    def __init__(self, database: Database, announcer: Announcer) -> None:
        self._database = database
        self._announcer = announcer

    async def run(self, stop: asyncio.Event) -> None:
        """Promote until ``stop``."""
        while not await stopped_within(stop, LOOK_EVERY_SECONDS):
            try:
                await self.promote()
            except StoreUnavailable as exc:
                log.debug("promoter.waits", error=str(exc))

    async def promote(self, now: datetime | None = None) -> int:
        """How many events came due and are QUEUED now, announced as soon as they are committed."""
        total = 0
        while True:
            async with self._database.hot() as pg:
                due = await promote_due(pg, MOST_AT_ONCE, now)
            self._announcer.announce_soon(due)
            total += len(due)
            if len(due) < MOST_AT_ONCE:
                return total
