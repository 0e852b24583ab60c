"""A worker of the fuzz: the product's claim, attempt and settle, driven without the care the real loop takes.

It starts sends it has no time for, reports late, writes reports twice, and dies with whatever it holds.
"""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from shared.channel import Channel
from shared.delivery.attempt import Conditions, attempt
from shared.delivery.gate import Gate
from shared.delivery.limit import TimeLimit
from shared.delivery.pauses import Pauses
from shared.job import JobStatus
from shared.store.claim import Claim, Share, claim, claim_suspect
from shared.store.database import Database
from shared.store.settle import Report, settle_if_claimed, settle_without_attempt
from tests.factories import scoped_tenant
from tests.prove.history import this_transaction
from tests.prove.oracle import Oracle
from tests.prove.troubled import Died, TroubledProvider

MOST_AT_ONCE = 12
ATTEMPT_TIMEOUT = timedelta(seconds=5)
"""Longer than any send of the fuzz takes: what is late is late because the worker did not care."""
FIRST_SILENCE = timedelta(milliseconds=10)
WRITE_TWICE = 0.10
WRITE_WITHOUT_ATTEMPT = 0.2
HOLD_BACK = 0.04
RELEASE = 0.04
CARELESS = 0.25


@dataclass
class _Life:
    """What dies with the worker: the reports it has not written."""

    over: bool = False
    reports: list[Report] = field(default_factory=list)


class MortalWorker:
    """One of many on a database; when it dies it comes back at once, with empty hands."""

    def __init__(
        self, name: str, database: Database, oracle: Oracle, shares: Sequence[Share], lease: timedelta, seed: str
    ) -> None:
        self._rng = random.Random(seed)
        self._provider = TroubledProvider(self._rng, oracle, lease)
        self._name = name
        self._database = database
        self._oracle = oracle
        self._shares = shares
        self._lease = lease
        gate = Gate(Pauses(database, Channel.EMAIL, FIRST_SILENCE, lease), FIRST_SILENCE, lease)
        limit = TimeLimit(ATTEMPT_TIMEOUT.total_seconds())
        self._conditions = Conditions(self._provider, gate, scoped_tenant, limit, FIRST_SILENCE, self._rng)
        self._life = _Life()
        self._again: list[Report] = []
        self._carrying: set[asyncio.Task[None]] = set()
        self._suspect: asyncio.Task[None] | None = None
        self._running = asyncio.Event()

    def calm_down(self) -> None:
        """Cause no more trouble; poison still kills."""
        self._provider.calm = True

    async def work(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set; then write down what is still in its hands."""
        while not stop.is_set():
            await self._take_some()
            await self._take_suspect()
            await asyncio.sleep(self._rng.uniform(0, 0.02))
            await self._write_down()
        await asyncio.gather(*self._carrying)
        await self._write_down()

    async def _take_some(self) -> None:
        free = MOST_AT_ONCE - len(self._carrying)
        if free <= 0:
            return
        shares = [Share(share.head, 1 + free // len(self._shares)) for share in self._shares]
        began = time.monotonic()
        async with self._database.hot() as pg:
            claims = await claim(pg, Channel.EMAIL, shares, self._lease, self._name)
        self._oracle.claimed(claims, began)
        for one in claims:
            self._start(one, began)

    async def _take_suspect(self) -> None:
        if self._suspect is not None and not self._suspect.done():
            return
        began = time.monotonic()
        async with self._database.hot() as pg:
            heads = [share.head for share in self._shares]
            one = await claim_suspect(pg, Channel.EMAIL, heads, self._lease, self._name)
        if one is not None:
            self._oracle.claimed([one], began)
            self._suspect = self._start(one, began)

    def _start(self, one: Claim, began: float) -> "asyncio.Task[None]":
        task = asyncio.create_task(self._carry(one, self._deadline(began), self._life))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        return task

    def _deadline(self, began: float) -> float:
        """Until when a send may start: often as the lease asks, sometimes never, sometimes for ever."""
        dice = 1.0 if self._provider.calm else self._rng.random()
        if dice < RELEASE:
            return 0.0
        if dice < RELEASE + CARELESS:
            return began + 3600
        return began + self._lease.total_seconds() / 2

    async def _carry(self, one: Claim, deadline: float, life: _Life) -> None:
        try:
            report = await attempt(one, deadline, self._running, self._conditions)
        except Died:
            life.over = True
            return
        if not self._provider.calm and self._rng.random() < HOLD_BACK:
            await asyncio.sleep(self._lease.total_seconds() * self._rng.uniform(1.0, 3.0))
        life.reports.append(report)

    async def _write_down(self) -> None:
        again, self._again = self._again, []
        await self._write(again)
        if self._life.over:
            self._life = _Life()
        reports, self._life.reports = self._life.reports, []
        self._oracle.writing(reports)
        await self._write(reports)
        if self._rng.random() < WRITE_TWICE:
            # As after a commit whose answer was lost: at once, or when others have had the job in their hands.
            if self._rng.random() < 0.5:
                await self._write(reports)
            else:
                self._again = reports

    async def _write(self, reports: Sequence[Report]) -> None:
        waiting = list(reports)
        while waiting:
            # One statement applies one report a job.
            batch = {report.job_id: report for report in reversed(waiting)}
            waiting = [report for report in waiting if batch[report.job_id] is not report]
            await self._write_batch(list(batch.values()))

    async def _write_batch(self, batch: list[Report]) -> None:
        # The last resort, when a Delivered can be written but not its attempt.
        alone = len(batch) == 1 and batch[0].status is JobStatus.SENT and self._rng.random() < WRITE_WITHOUT_ATTEMPT
        async with self._database.hot() as pg, pg.transaction():
            if alone:
                settled = await settle_without_attempt(pg, Channel.EMAIL, batch[0])
            else:
                settled = await settle_if_claimed(pg, Channel.EMAIL, batch)
            transaction = await this_transaction(pg)
        self._oracle.wrote(batch, settled, transaction)
