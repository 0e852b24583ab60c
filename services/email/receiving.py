"""The end of a report's way: taken in, applied at once where its job is settled, and by a sweep where it was not."""

import asyncio
from datetime import UTC, datetime, timedelta

from services.email.intake import Arrival, Report, Taken, keep_report, read_arrival
from services.email.returnpath import ReturnPaths
from shared.errors import StoreUnavailable
from shared.lifecycle import stopped_within
from shared.logs import get_logger
from shared.metrics import bounce_mails
from shared.store.database import Database, HotConnection
from shared.store.receipts import apply_ripe

log = get_logger()

SWEEP_EVERY = timedelta(seconds=10)
BATCH = 200
READ_AT_ONCE = 1
"""A mail may be made to be slow to read: two of them would leave the loop a third of the time."""
KEPT_AT_ONCE = 4


class Receiving:
    """Takes reports in and applies receipts; any number of processes may do so at once."""

    def __init__(self, database: Database, paths: ReturnPaths, sweep_every: timedelta = SWEEP_EVERY) -> None:
        self._database = database
        self._paths = paths
        self._sweep_every = sweep_every
        self._readers = asyncio.Semaphore(READ_AT_ONCE)
        self._keepers = asyncio.Semaphore(KEPT_AT_ONCE)

    async def take(self, arrival: Arrival) -> Taken:
        """What became of ``arrival``. Raises StoreUnavailable: whoever handed it in must do so again."""
        async with self._readers:
            # In a thread, since mails are sent meanwhile.
            read = await asyncio.to_thread(read_arrival, arrival, self._paths, datetime.now(UTC))
        taken = read if isinstance(read, Taken) else await self._keep(read)
        bounce_mails.labels(taken).inc()
        log.info("receipts.taken", source=arrival.source, result=taken)
        return taken

    async def run(self, stop: asyncio.Event) -> None:
        """Apply what has waited for its job, every few seconds until ``stop``."""
        while not await stopped_within(stop, self._sweep_every.total_seconds()):
            try:
                async with self._database.hot() as pg:
                    await self._apply(pg)
            except StoreUnavailable as exc:
                log.warning("receipts.not_applied", error=str(exc))

    async def _keep(self, report: Report) -> Taken:
        # Sending needs the pool more.
        async with self._keepers, self._database.hot() as pg:
            taken = await keep_report(pg, report)
            if taken is Taken.NEW:
                await self._apply(pg)
        return taken

    async def _apply(self, pg: HotConnection) -> None:
        while True:
            applied = await apply_ripe(pg, BATCH)
            for one in applied:
                log.info("receipts.applied", scope_id=one.scope_id, kind=one.kind, cause=one.cause, effect=one.effect)
            if len(applied) < BATCH:
                return
