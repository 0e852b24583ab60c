"""Deletes what was kept long enough, bit by bit, beside everything else."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Generic, TypeAlias

from shared.errors import StoreUnavailable
from shared.lifecycle import stopped_within
from shared.logs import get_logger
from shared.metrics import purged_rows
from shared.store.change_feed import purge_changes
from shared.store.database import Database, HotConnection
from shared.store.purge import BEFORE_EVERY_EVENT, BEFORE_EVERY_JOB, P, Portion, purge_content, purge_events

log = get_logger()

PORTION = 5000
"""Jobs that one transaction looks at."""
JOBS_PER_EVENT = 2
"""Or more; one transaction looks at as many events as should have a portion of jobs."""
CHANGES_PER_FEED = 500
FEEDS = 20
"""One transaction looks at as many rows of as many feeds of changes."""
MOST_PORTIONS = 500
"""Of one walk in one sweep; the next sweep goes on from there."""
BREATH_SECONDS = 0.1
"""Between two portions, for everybody else."""
JITTER = 0.2

Purge: TypeAlias = Callable[[HotConnection, timedelta, P, int], Awaitable[Portion[P]]]


class Walk(Generic[P]):
    """One way through what is kept, from the oldest to what is too young; a sweep goes on where the last one ended.

    What it leaves behind (unfinished, or in somebody's hands) it meets again when it begins anew.
    """

    def __init__(self, database: Database, purge: Purge[P], start: P, keep: timedelta, portion: int = PORTION) -> None:
        self._database = database
        self._purge: Purge[P] = purge
        self._start: P = start
        self._place: P = start
        self._keep = keep
        self._portion = portion

    async def go_on(self, stop: asyncio.Event) -> Counter[str]:
        """The rows deleted, by table, until the end or until enough for one sweep. Raises StoreUnavailable."""
        gone = Counter[str]()
        for _ in range(MOST_PORTIONS):
            async with self._database.hot() as pg:
                portion = await self._purge(pg, self._keep, self._place, self._portion)
            gone.update(portion.gone)
            for table, count in portion.gone.items():
                purged_rows.labels(table).inc(count)
            self._place = portion.reached or self._start
            if portion.reached is None or await stopped_within(stop, BREATH_SECONDS):
                break
        return gone


class Purger:
    """Sweeps at every interval; any number of them may run, they pass over what another one holds."""

    def __init__(
        self,
        database: Database,
        every: timedelta,
        keep_content: timedelta,
        keep_events: timedelta,
        portion: int = PORTION,
    ) -> None:
        """``keep_content``: of content and attempts, from a job's end; ``keep_events``: of everything else."""
        self._every = every
        self._database = database
        self._keep_events = keep_events
        self._content = Walk(database, purge_content, BEFORE_EVERY_JOB, keep_content, portion)
        self._events = Walk(database, purge_events, BEFORE_EVERY_EVENT, keep_events, portion // JOBS_PER_EVENT)

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep at start and at every interval until ``stop``."""
        while not stop.is_set():
            try:
                gone = await self.sweep(stop)
                if gone.total():
                    log.info("purger.purged", **{table: count for table, count in gone.items() if count})
            except StoreUnavailable as exc:
                log.debug("purger.waits", error=str(exc))
            seconds = self._every.total_seconds() * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - spreads load
            await stopped_within(stop, seconds)

    async def sweep(self, stop: asyncio.Event) -> Counter[str]:
        """The rows deleted, by table. Raises StoreUnavailable."""
        # Changes before the events that they are about.
        return await self._content.go_on(stop) + await self._purge_changes(stop) + await self._events.go_on(stop)

    async def _purge_changes(self, stop: asyncio.Event) -> Counter[str]:
        gone = Counter[str]()
        for _ in range(MOST_PORTIONS):
            async with self._database.hot() as pg:
                count = await purge_changes(pg, self._keep_events, FEEDS, CHANGES_PER_FEED)
            gone["changes"] += count
            purged_rows.labels("changes").inc(count)
            if not count or await stopped_within(stop, BREATH_SECONDS):
                break
        return gone
