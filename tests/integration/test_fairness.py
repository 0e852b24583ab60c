"""A flood beside others: a real worker, two tenants, and who gets through when."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from shared.channel import Channel
from shared.delivery.pace import WorkerSettings
from shared.delivery.provider import Parcel
from shared.delivery.worker import Worker
from shared.ids import JobId, ScopeId
from shared.job import Lane
from shared.store.database import Database
from shared.verdict import Delivered, Verdict
from tests.factories import create_jobs, new_job, until
from tests.fakes.provider import ScriptedProvider
from tests.fakes.tenants import TenantEach

FLOOD = 6_000
SLOTS = 20
PROVIDER_SECONDS = 0.02
FLOODING, QUIET = ScopeId(1), ScopeId(2)
SETTINGS = WorkerSettings(
    channel=Channel.EMAIL,
    name="worker",
    slots=SLOTS,
    lease=timedelta(seconds=60),
    attempt_timeout=timedelta(seconds=10),
    margin=timedelta(seconds=1),
    poll_busy=timedelta(seconds=1),
    poll_idle=timedelta(seconds=1),
)


async def take_a_moment(_parcel: Parcel) -> Verdict:
    await asyncio.sleep(PROVIDER_SECONDS)
    return Delivered()


class Flooded:
    """A worker that has every slot it may have full of one tenant's bulk."""

    def __init__(self, database: Database, worker: Worker, provider: ScriptedProvider) -> None:
        self.worker = worker
        self.provider = provider
        self._database = database

    async def post(self, scope_id: ScopeId) -> JobId:
        """One transactional job of ``scope_id``, of which nobody is told."""
        (made,) = await create_jobs(self._database, [new_job(scope_id=scope_id)])
        return made.job_id

    async def passed_by(self, job_id: JobId) -> int:
        """How many others were sent between now and ``job_id``."""
        before = len(self.provider.sent)
        await until(lambda: any(parcel.job_id == job_id for parcel in self.provider.sent[before:]))
        return [parcel.job_id for parcel in self.provider.sent[before:]].index(job_id)


@asynccontextmanager
async def flooded(database: Database) -> AsyncIterator[Flooded]:
    for _ in range(0, FLOOD, 2_000):
        await create_jobs(database, [new_job(scope_id=FLOODING, lane=Lane.BULK) for _ in range(2_000)])
    provider, stop = ScriptedProvider(take_a_moment), asyncio.Event()
    worker = Worker(SETTINGS, database, TenantEach(), provider)
    running = asyncio.create_task(worker.run(stop))
    try:
        await until(lambda: len(provider.sent) > SLOTS)
        yield Flooded(database, worker, provider)
    finally:
        stop.set()
        async with asyncio.timeout(30):
            await running


async def test_another_tenants_job_takes_one_of_the_slots_that_are_kept(database: Database) -> None:
    async with flooded(database) as flood:
        job_id = await flood.post(QUIET)
        flood.worker.bell.ring(frozenset({QUIET}))
        assert await flood.passed_by(job_id) <= 10 * SLOTS
    assert flood.provider.most_at_once < SLOTS, "a flood never takes them all"


async def test_a_tenants_own_urgent_job_overtakes_its_bulk(database: Database) -> None:
    async with flooded(database) as flood:
        job_id = await flood.post(FLOODING)
        flood.worker.bell.ring(frozenset({FLOODING}))
        assert await flood.passed_by(job_id) <= 10 * SLOTS


async def test_another_tenants_job_is_found_without_a_wake_long_before_the_flood_is_over(database: Database) -> None:
    async with flooded(database) as flood:
        job_id = await flood.post(QUIET)
        assert await flood.passed_by(job_id) < FLOOD - 10 * SLOTS
