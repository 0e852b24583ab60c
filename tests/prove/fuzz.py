"""The fuzz of the engine: many workers that die, dawdle and repeat themselves on one database, and an oracle."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from shared.ids import ScopeId
from shared.job import Lane
from shared.store.claim import Head, Share
from shared.store.database import Database
from tests.fakes.changes import change_mistakes, number_all
from tests.fakes.ledger import ledger_mistakes
from tests.prove.history import read_history, record_history
from tests.prove.meddling import SCOPES, Feeder, Meddler, enter_entries
from tests.prove.mortal import MortalWorker
from tests.prove.oracle import Harm, Oracle

WORKERS = 14
MEDDLERS = 2
POOL_SIZE = WORKERS + 8
LEASE = timedelta(milliseconds=100)
SHARES = [Share(Head(ScopeId(scope_id), lane, None), 20) for scope_id in SCOPES for lane in Lane]
STALLED_SECONDS = 60.0
"""Without a single new claim for so long the run is over; what is then unfinished is harm."""
CALM_SECONDS = 90.0
"""How long the good provider has to finish everything."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Fuzzed:
    """What one seed came to."""

    seed: str
    claims: int
    harm: Harm
    seconds: float


async def fuzz_seed(database: Database, seed: str, claims: int, say: Say) -> Fuzzed:
    """``claims`` claims in trouble, then calm until all is finished, then the judgement. ``database`` is empty."""
    began = time.monotonic()
    await record_history(database)
    oracle = Oracle(LEASE)
    await _run(database, seed, claims, oracle, say)
    history = await read_history(database)
    others = {
        "replays": sum(one.is_replay for one in history),
        "cancels": sum(one.became == "CANCELLED" for one in history),
        "bounces": sum(one.became_reason == "bounced" for one in history),
    }
    say(f"seed {seed}: verdicts {dict(oracle.acts)}, {others}; judging")
    harm = oracle.judge(history, await _final(database))
    for mistake in (mistakes := await ledger_mistakes(database)):
        say(f"seed {seed}: the ledger and the tables differ: {mistake}")
    harm.ledger_mistakes = len(mistakes)
    await number_all(database)
    for mistake in (untold := await change_mistakes(database)):
        say(f"seed {seed}: the feed of changes and the tables differ: {mistake}")
    harm.change_mistakes = len(untold)
    harm.inbox_duplicates = await _inbox_mistakes(database)
    return Fuzzed(seed, oracle.claim_count, harm, time.monotonic() - began)


async def _run(database: Database, seed: str, claims: int, oracle: Oracle, say: Say) -> None:
    workers = [
        MortalWorker(f"worker-{number}", database, oracle, SHARES, LEASE, f"{seed}-{number}")
        for number in range(WORKERS)
    ]
    feeder = Feeder(database, random.Random(seed))
    feeding, working = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(feeder.feed(feeding))
        group.create_task(enter_entries(database, SHARES, working))
        group.create_task(_number(database, working))
        for number in range(MEDDLERS):
            meddler = Meddler(database, feeder, random.Random(f"{seed}-meddler-{number}"))
            group.create_task(meddler.meddle(feeding))
        for worker in workers:
            group.create_task(worker.work(working))
        await _until_claimed(oracle, claims, seed, say)
        feeding.set()
        for worker in workers:
            worker.calm_down()
        await _until_finished(database)
        working.set()


async def _number(database: Database, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await number_all(database)
        await asyncio.sleep(0.05)


async def _until_claimed(oracle: Oracle, claims: int, seed: str, say: Say) -> None:
    seen, moved_at, told = 0, time.monotonic(), 0
    while oracle.claim_count < claims and time.monotonic() - moved_at < STALLED_SECONDS:
        if oracle.claim_count != seen:
            seen, moved_at = oracle.claim_count, time.monotonic()
        if seen - told >= 5000:
            told = seen
            say(f"seed {seed}: {seen} of {claims} claims")
        await asyncio.sleep(0.05)


async def _until_finished(database: Database) -> None:
    deadline = time.monotonic() + CALM_SECONDS
    while time.monotonic() < deadline:
        async with database.hot() as pg:
            if await pg.fetchval("SELECT count(*) FROM outgoing WHERE status = 'PENDING'") == 0:
                return
        await asyncio.sleep(0.1)


async def _final(database: Database) -> dict[int, tuple[str, str]]:
    async with database.hot() as pg:
        rows = await pg.fetch("SELECT job_id, status, reason FROM outgoing")
    return {row["job_id"]: (row["status"], row["reason"]) for row in rows}


async def _inbox_mistakes(database: Database) -> int:
    """Entries of one event beyond the first, and jobs that are SENT without an entry or have one and are not."""
    async with database.hot() as pg:
        return int(
            await pg.fetchval(
                """
                SELECT (SELECT count(*) - count(DISTINCT event_id) FROM inbox)
                     + (SELECT count(*) FROM outgoing o FULL JOIN inbox i USING (job_id)
                        WHERE (o.channel = 'inapp' AND o.status = 'SENT') IS DISTINCT FROM (i.job_id IS NOT NULL)
                          AND (o.channel = 'inapp' OR o.channel IS NULL))
                """
            )
        )
