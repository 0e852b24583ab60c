"""Says in /metrics what waits and what is paused: the first figures to look at when something is late."""

import asyncio
import math
from collections import Counter

from shared.channel import BUILT_CHANNELS
from shared.errors import StoreUnavailable
from shared.lifecycle import stopped_within
from shared.logs import get_logger
from shared.metrics import due_jobs as due_jobs_gauge
from shared.metrics import oldest_due_seconds, oldest_queued_seconds, pauses_standing
from shared.metrics import queued_events as queued_events_gauge
from shared.store.backlog import due_jobs, queued_events
from shared.store.database import Database
from shared.store.pauses import PauseKind, read_pauses

log = get_logger()

LOOK_EVERY_SECONDS = 15.0


class Gauges:
    """Looks every 15 seconds. Each replica of ingest says the same: whoever adds them up takes the largest."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(self, stop: asyncio.Event) -> None:
        """Look until ``stop``."""
        while not stop.is_set():
            try:
                await self.look()
            except StoreUnavailable as exc:
                log.warning("gauges.wait", error=str(exc))
                self._say_nothing()
            await stopped_within(stop, LOOK_EVERY_SECONDS)

    async def look(self) -> None:
        """Set every gauge to what Postgres says now. Raises StoreUnavailable."""
        async with self._database.hot() as pg:
            for channel in BUILT_CHANNELS:
                due = await due_jobs(pg, channel)
                due_jobs_gauge.labels(channel).set(due.count)
                oldest_due_seconds.labels(channel).set(due.oldest.total_seconds())
            queued = await queued_events(pg)
            queued_events_gauge.set(queued.count)
            oldest_queued_seconds.set(queued.oldest.total_seconds())
            standing = Counter(pause.key.kind for pause in await read_pauses(pg))
            for kind in PauseKind:
                pauses_standing.labels(kind).set(standing[kind])

    def _say_nothing(self) -> None:
        # The last figures would say that all is well: not a number is what is known now.
        for channel in BUILT_CHANNELS:
            due_jobs_gauge.labels(channel).set(math.nan)
            oldest_due_seconds.labels(channel).set(math.nan)
        queued_events_gauge.set(math.nan)
        oldest_queued_seconds.set(math.nan)
        for kind in PauseKind:
            pauses_standing.labels(kind).set(math.nan)
