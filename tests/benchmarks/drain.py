"""Draining a backlog: the worker with a provider that answers at once, against the bare statements."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from services.inapp.inbox import InboxWriter
from shared.channel import Channel
from shared.delivery.pace import WorkerSettings
from shared.delivery.provider import Parcel
from shared.delivery.worker import Worker
from shared.ids import ScopeId
from shared.job import Lane
from shared.store.claim import PICK as CLAIM_PICK
from shared.store.claim import Head, Share, pick_arguments
from shared.store.database import Database
from shared.tenant import ScopedTenant
from shared.verdict import Delivered, Verdict
from tests.benchmarks.harness import Bench, Result, Stopwatch
from tests.factories import create_jobs, new_job
from tests.fakes.tenants import OneTenant

JOBS = 40_000
ROUNDS = 3
SCOPES = 4
SLOTS = 1_000
LEASE = timedelta(seconds=90)

# The least a queue on this schema can do: claim a batch, finish a batch; no content, no attempts, no ledger.
BARE_CLAIM = f"""
WITH {CLAIM_PICK}
UPDATE outgoing o
SET claim_seq = o.claim_seq + 1, claimed_until = now() + interval '90 seconds', claimed_by = 'bare'
WHERE o.channel = $1 AND o.job_id = ANY (ARRAY(SELECT job_id FROM picked))
RETURNING o.job_id
"""
BARE_SETTLE = """
UPDATE outgoing o
SET status = 'SENT', attempts = 1, reported_seq = o.claim_seq, finished_at = now(), claimed_until = '-infinity'
WHERE o.channel = $1 AND o.job_id = ANY ($2::bigint[])
"""
BARE_BATCH = 200
BARE_TASKS = 4


class AtOnce:
    """A provider that takes everything at once."""

    name = "noop"

    async def send(self, _parcel: Parcel) -> Verdict:
        """Taken."""
        return Delivered("noop")

    def circuits(self, _tenant: ScopedTenant) -> frozenset[str]:
        """None."""
        return frozenset()

    async def learn(self, _tenant: ScopedTenant) -> None:
        """There is nothing to learn."""

    async def close(self) -> None:
        """Nothing to give back."""


async def drain_noop(bench: Bench) -> Result:
    """One process through the whole pipeline: content read, attempt, ledger and log line written."""
    full, bare = [], []
    for turn in range(ROUNDS):
        bench.say(f"drain_noop: round {turn + 1} of {ROUNDS}")
        bare.append(await _drain(bench, Channel.EMAIL, _bare))
        full.append(await drain_with_worker(bench))
    (rate, cpu), (limit, _) = max(full), max(bare)
    return {
        "bench": "drain_noop",
        "jobs_per_second": round(rate),
        "limit_per_second": round(limit),
        "of_limit": round(rate / limit, 3),
        "cpu_us_per_job": round(cpu),
        "rounds": [round(one) for one, _ in full],
    }


async def inapp_drain(bench: Bench) -> Result:
    """One in-app loop: head, entry, settle, attempt and ledger in one statement."""
    rates = []
    for turn in range(ROUNDS):
        bench.say(f"inapp_drain: round {turn + 1} of {ROUNDS}")
        rates.append(await _drain(bench, Channel.INAPP, _inbox_writer))
    rate, cpu = max(rates)
    return {
        "bench": "inapp_drain",
        "jobs_per_second": round(rate),
        "cpu_us_per_job": round(cpu),
        "rounds": [round(one) for one, _ in rates],
    }


async def drain_with_worker(bench: Bench) -> tuple[float, float]:
    """Jobs per second of one worker over a provider that answers at once, and our CPU in µs per job."""
    return await _drain(bench, Channel.EMAIL, _worker)


async def _drain(
    bench: Bench, channel: Channel, work: Callable[[Database, asyncio.Event], Awaitable[None]]
) -> tuple[float, float]:
    """Jobs per second, from the first claim until every job is recorded as finished, and our CPU in µs per job."""
    async with bench.database() as database:
        await _fill(database, channel)
        stop = asyncio.Event()
        watch = Stopwatch()
        working = asyncio.create_task(_run(work, database, stop))
        await _until_finished(database)
        rate, cpu = JOBS / watch.seconds, 1e6 * watch.cpu_seconds / JOBS
        stop.set()
        await working
        return rate, cpu


async def _run(
    work: Callable[[Database, asyncio.Event], Awaitable[None]], database: Database, stop: asyncio.Event
) -> None:
    await work(database, stop)


async def _fill(database: Database, channel: Channel) -> None:
    for start in range(0, JOBS, 2_000):
        await create_jobs(
            database,
            [
                new_job(channel=channel, scope_id=number % SCOPES + 1, recipient_id=f"r{number % 997}")
                for number in range(start, start + 2_000)
            ],
        )
    async with database.hot(timedelta(minutes=1)) as pg:
        await pg.execute("VACUUM (ANALYZE) outgoing, content")
        await pg.execute("CHECKPOINT")


async def _until_finished(database: Database) -> None:
    async with database.hot(timedelta(minutes=5)) as pg:
        while await pg.fetchval("SELECT EXISTS (SELECT FROM outgoing WHERE status = 'PENDING')"):
            await asyncio.sleep(0.02)


async def _worker(database: Database, stop: asyncio.Event) -> None:
    settings = WorkerSettings(
        Channel.EMAIL,
        "bench",
        SLOTS,
        LEASE,
        timedelta(seconds=35),
        timedelta(seconds=5),
        timedelta(seconds=1),
        timedelta(seconds=5),
    )
    await Worker(settings, database, OneTenant(), AtOnce()).run(stop)


async def _inbox_writer(database: Database, stop: asyncio.Event) -> None:
    await InboxWriter(database, OneTenant()).run(stop)


async def _bare(database: Database, _stop: asyncio.Event) -> None:
    shares = [
        Share(Head(ScopeId(scope), Lane.TRANSACTIONAL, None), BARE_BATCH // SCOPES) for scope in range(1, SCOPES + 1)
    ]
    await asyncio.gather(*(_bare_loop(database, shares) for _ in range(BARE_TASKS)))


async def _bare_loop(database: Database, shares: Sequence[Share]) -> None:
    async with database.hot(timedelta(minutes=5)) as pg:
        while rows := await pg.fetch(BARE_CLAIM, *pick_arguments(Channel.EMAIL, shares)):
            await pg.execute(BARE_SETTLE, Channel.EMAIL, [row["job_id"] for row in rows])
