"""Ends jobs whose time is up although nobody claims them: those of a paused channel, tenant or sender."""

import asyncio
from collections import Counter
from datetime import timedelta

from shared.channel import BUILT_CHANNELS, Channel
from shared.errors import StoreUnavailable
from shared.job import JobStatus
from shared.lifecycle import stopped_within
from shared.logs import get_logger
from shared.metrics import jobs_expired
from shared.store.database import Database
from shared.store.expiry import Expired, expire_locked, lock_expired

log = get_logger()

MOST_AT_ONCE = 2000
MOST_A_SWEEP = 200_000
"""Of one channel; the next sweep takes the rest."""


class Expirer:
    """Sweeps at every interval; any number of them may run, they skip what another one holds."""

    def __init__(self, database: Database, every: timedelta) -> None:
        self._database = database
        self._every = every

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep at start and at every interval until ``stop``."""
        while not stop.is_set():
            try:
                for channel in BUILT_CHANNELS:
                    await self.sweep(channel, stop)
            except StoreUnavailable as exc:
                log.debug("expirer.waits", error=str(exc))
            await stopped_within(stop, self._every.total_seconds())

    async def sweep(self, channel: Channel, stop: asyncio.Event | None = None) -> int:
        """How many jobs of ``channel`` ended, in transactions of 2,000 at most. Raises StoreUnavailable."""
        ended = Counter[JobStatus]()
        while ended.total() < MOST_A_SWEEP and not (stop and stop.is_set()):
            expired = await self._expire_some(channel)
            ended.update(job.status for job in expired)
            if len(expired) < MOST_AT_ONCE:
                break
        for status, count in ended.items():
            jobs_expired.labels(channel, status).inc(count)
            log.warning("expirer.expired", channel=channel, status=status, jobs=count)
        return ended.total()

    async def _expire_some(self, channel: Channel) -> list[Expired]:
        async with self._database.hot() as pg, pg.transaction():
            job_ids = await lock_expired(pg, channel, MOST_AT_ONCE)
            return await expire_locked(pg, channel, job_ids) if job_ids else []
