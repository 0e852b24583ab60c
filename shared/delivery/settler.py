"""Writes reports in batches, and does not rest until each is written."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice

import asyncpg

from shared import metrics
from shared.change import TargetEnd
from shared.channel import Channel
from shared.delivery.record import count_attempts
from shared.errors import StoreUnavailable
from shared.logs import get_logger
from shared.store.database import Database, HotConnection
from shared.store.settle import Report, Settled, settle_if_claimed, settle_without_attempt

log = get_logger()

BATCH = 400
"""Reports in one statement, which takes some 10 ms; with 200 a drain was a fifth slower."""
AT_ONCE = 2
"""Statements under way: Postgres works on one while the next is put together."""
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _Waiting:
    report: Report
    since: float = field(default_factory=time.monotonic)


class Settler:
    """Writes a worker's reports.

    Batching is natural: a report is written at once when nothing is being written, and what arrives meanwhile
    goes with the next statement; a full batch does not wait for the one before it. ``is_behind`` says that claiming
    has to wait.
    """

    def __init__(self, database: Database, channel: Channel, lease: timedelta) -> None:
        self._database = database
        self._channel = channel
        self._behind_after = lease.total_seconds() / 4
        self._waiting: deque[_Waiting] = deque()
        self._writing: dict[asyncio.Task[None], float] = {}
        self._arrived = asyncio.Event()
        self._closed = False
        self._failing = False
        self._broken: BaseException | None = None

    def submit(self, report: Report) -> None:
        """Have ``report`` written."""
        self._waiting.append(_Waiting(report))
        self._arrived.set()

    @property
    def is_behind(self) -> bool:
        """Whether the last write failed, or the oldest unwritten report is older than a quarter of the lease."""
        since = [*self._writing.values(), *(waiting.since for waiting in islice(self._waiting, 1))]
        return self._failing or (bool(since) and time.monotonic() - min(since) > self._behind_after)

    def close(self) -> None:
        """Nothing more is submitted: ``run`` returns once everything is written."""
        self._closed = True
        self._arrived.set()

    async def run(self) -> None:
        """Write reports as they arrive, until closed and empty. Raises what nobody had foreseen."""
        try:
            while not (self._closed and not self._waiting and not self._writing):
                await self._arrived.wait()
                self._arrived.clear()
                if self._broken is not None:
                    # The leases still hold the jobs; when they end, another round finds out what the rows say.
                    raise self._broken
                self._begin_writing()
        finally:
            for writing in self._writing:
                writing.cancel()

    def _begin_writing(self) -> None:
        while self._waiting and len(self._writing) < (AT_ONCE if len(self._waiting) >= BATCH else 1):
            batch = self._take_batch()
            writing = asyncio.create_task(self._write([waiting.report for waiting in batch]))
            self._writing[writing] = batch[0].since
            writing.add_done_callback(self._written)

    def _written(self, writing: asyncio.Task[None]) -> None:
        del self._writing[writing]
        self._arrived.set()
        if not writing.cancelled():
            self._broken = self._broken or writing.exception()

    def _take_batch(self) -> list[_Waiting]:
        # One statement applies one report a job: a second one of the same job waits for the next.
        batch: dict[int, _Waiting] = {}
        while self._waiting and len(batch) < BATCH and self._waiting[0].report.job_id not in batch:
            waiting = self._waiting.popleft()
            batch[waiting.report.job_id] = waiting
        return list(batch.values())

    async def _write(self, reports: list[Report]) -> None:
        count_attempts(self._channel, reports)
        try:
            await self._write_when_possible(reports)
        except asyncpg.PostgresError:
            log.exception("delivery.settle_failed", channel=self._channel, count=len(reports))
            for report in reports:
                await self._write_alone(report)

    async def _write_alone(self, report: Report) -> None:
        try:
            await self._write_when_possible([report])
        except asyncpg.PostgresError:
            log.exception("delivery.attempt_not_recorded", job=report.job_id, attempts=_described(report))
            await self._write_status_alone(report)

    async def _write_status_alone(self, report: Report) -> None:
        async def write(pg: HotConnection) -> list[Settled]:
            return await settle_without_attempt(pg, self._channel, report)

        try:
            await self._when_possible(write)
        except asyncpg.PostgresError:
            # The lease still holds the job; when it ends, another round finds out what the row says.
            log.exception("delivery.report_lost", job=report.job_id, status=report.status)

    async def _write_when_possible(self, reports: list[Report]) -> None:
        async def write(pg: HotConnection) -> list[Settled]:
            return await settle_if_claimed(pg, self._channel, reports)

        await self._when_possible(write)

    async def _when_possible(self, write: Callable[[HotConnection], Awaitable[list[Settled]]]) -> None:
        """Do ``write``, however long Postgres is away; what it says of the statement is raised."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                async with self._database.hot() as pg:
                    settled = await write(pg)
                break
            except StoreUnavailable as exc:
                self._failing = True
                log.debug("delivery.settle_waits", channel=self._channel, error=str(exc))
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        self._failing = False
        self._note(settled)

    def _note(self, settled: list[Settled]) -> None:
        for one in settled:
            if one.act != "applied":
                log.warning("delivery.report_not_applied", job=one.job_id, act=one.act, status=one.status)
            if one.forgotten:
                metrics.targets_removed.labels(TargetEnd.DEAD).inc(one.forgotten)
                log.info("push.targets_forgotten", job=one.job_id, count=one.forgotten)


def _described(report: Report) -> list[dict[str, object]]:
    return [
        {"verdict": row.verdict, "code": row.code, "provider_id": row.provider_id, "at": row.started_at.isoformat()}
        for row in report.attempts
    ]
