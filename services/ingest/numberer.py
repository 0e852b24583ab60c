"""Gives changes their places in the feed, so that a product can read them without a gap."""

import asyncio
import itertools
from collections.abc import Iterator

from shared.errors import StoreUnavailable
from shared.lifecycle import stopped_within
from shared.logs import get_logger
from shared.store.database import Database
from shared.store.numbering import BEFORE_EVERYTHING, number_visible

log = get_logger()

LOOK_EVERY_SECONDS = 0.5
WHOLE_LOOK_EVERY = 120
"""One look a minute has no bound: a database that was put back to an earlier state counts its transactions anew."""
MOST_AT_ONCE = 2000


class Numberer:
    """Looks twice a second; any number of them may run, one is at work at a time."""

    def __init__(self, database: Database, most_at_once: int = MOST_AT_ONCE) -> None:
        self._database = database
        self._most = most_at_once
        self._looks: Iterator[int] = itertools.count()
        self._bound = BEFORE_EVERYTHING

    async def run(self, stop: asyncio.Event) -> None:
        """Number until ``stop``."""
        while not await stopped_within(stop, LOOK_EVERY_SECONDS):
            try:
                await self.number()
            except StoreUnavailable as exc:
                log.debug("numberer.waits", error=str(exc))

    async def number(self) -> int:
        """How many rows got their places. Raises StoreUnavailable."""
        if next(self._looks) % WHOLE_LOOK_EVERY == 0:
            self._bound = BEFORE_EVERYTHING
        total = 0
        while True:
            async with self._database.hot() as pg, pg.transaction():
                numbered = await number_visible(pg, self._bound, self._most)
            if numbered is None:
                return total
            total += numbered.count
            if numbered.count < self._most:
                self._bound = numbered.bound
                return total
