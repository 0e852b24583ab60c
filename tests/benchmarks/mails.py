"""Mail to a relay that takes its time: what more connections bring, what a mail costs us, and that none goes twice."""

import asyncio
from datetime import timedelta

from msgspec.structs import replace

from services.email.provider import EmailProvider
from services.email.relays import OneRelay
from services.email.smtp import SmtpProvider
from shared.channel import Channel
from shared.delivery.pace import WorkerSettings
from shared.delivery.worker import Worker
from shared.relay import Relay
from shared.store.database import Database
from shared.verdict import Delivered
from tests.benchmarks.harness import Bench, Result, Stopwatch
from tests.factories import create_jobs, new_job
from tests.fakes.parcels import email_parcel
from tests.fakes.relay import SlowRelay, slow_relay
from tests.fakes.tenants import OneTenant
from tests.looks import shipped_mails

ANSWERS_AFTER_MS = 5
POOLS = (1, 10)
MAILS_EACH = 120
"""Per connection, in one measurement."""
ROUNDS = 2
JOBS, PORTION, SLOTS, DROP_EVERY = 10_000, 2_000, 50, 701
ATTEMPT = timedelta(seconds=35)
PATIENCE = timedelta(minutes=5)


async def smtp_pool(bench: Bench) -> Result:
    """A pool of ten connections against a single one, the shipped mails being what is sent."""
    best: dict[int, tuple[float, float]] = {}
    async with slow_relay(ANSWERS_AFTER_MS) as relay:
        for turn in range(ROUNDS):
            bench.say(f"smtp_pool: round {turn + 1} of {ROUNDS}")
            for size in POOLS:
                best[size] = max(best.get(size, (0.0, 0.0)), await _rate(relay, size))
    one, ten = (best[size] for size in POOLS)
    return {
        "bench": "smtp_pool",
        "ratio": round(ten[0] / one[0], 2),
        "mails_per_second": round(ten[0]),
        "mails_per_second_of_one": round(one[0]),
        "cpu_us_per_mail": round(ten[1]),
    }


async def smtp_once(bench: Bench) -> Result:
    """10,000 jobs through the worker to a relay that hangs up now and then: one Message-ID a job, none twice."""
    async with slow_relay(1, DROP_EVERY) as relay, bench.database() as database:
        bench.say(f"smtp_once: {JOBS} jobs")
        for _ in range(JOBS // PORTION):
            await create_jobs(database, [new_job() for _ in range(PORTION)])
        watch = Stopwatch()
        await _work_off(database, relay)
        seconds, tally = watch.seconds, await relay.tally()
    return {
        "bench": "smtp_once",
        "jobs": JOBS,
        "mails": tally.mails,
        "message_ids": tally.distinct,
        "twice": tally.mails - tally.distinct,
        "lost": JOBS - tally.distinct,
        "hung_up": tally.dropped,
        "mails_per_second": round(JOBS / seconds),
    }


async def _rate(relay: SlowRelay, size: int) -> tuple[float, float]:
    """Mails per second over ``size`` connections, and our CPU in µs per mail."""
    provider = SmtpProvider(Relay("127.0.0.1", relay.port), pool_size=size, attempt_timeout=ATTEMPT)
    contents = [content for _name, content in shipped_mails()]

    async def send(count: int) -> None:
        for number in range(count):
            verdict = await provider.send(replace(email_parcel(), content=contents[number % len(contents)]))
            assert isinstance(verdict, Delivered), verdict

    await asyncio.gather(*(send(1) for _ in range(size)))  # connect first
    watch = Stopwatch()
    await asyncio.gather(*(send(MAILS_EACH) for _ in range(size)))
    count = size * MAILS_EACH
    rate, cpu = count / watch.seconds, watch.cpu_seconds * 1e6 / count
    await provider.close()
    return rate, cpu


async def _work_off(database: Database, relay: SlowRelay) -> None:
    """Run a worker until every job is SENT."""
    stop, tick = asyncio.Event(), timedelta(seconds=1)
    settings = WorkerSettings(Channel.EMAIL, "bench", SLOTS, timedelta(seconds=90), ATTEMPT, tick * 5, tick, tick, tick)
    provider = EmailProvider(
        OneRelay(Relay("127.0.0.1", relay.port)), pool_size=SLOTS, attempt_timeout=settings.attempt_timeout
    )
    running = asyncio.create_task(Worker(settings, database, OneTenant(), provider).run(stop))
    async with database.hot(PATIENCE) as pg:
        while await pg.fetchval("SELECT EXISTS (SELECT FROM outgoing WHERE status <> 'SENT')"):
            await asyncio.sleep(0.1)
    stop.set()
    await running
