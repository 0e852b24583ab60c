"""What a claim of 100 costs in pages, whatever lies about: a backlog, many scopes, what an old snapshot keeps."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg

from shared.channel import Channel
from shared.delivery.dealing import any_number
from shared.delivery.rounds import Rounds
from shared.delivery.wake import Doorbell
from shared.ids import ScopeId
from shared.store.claim import claim
from shared.store.database import Database, HotConnection
from tests.benchmarks.harness import Bench, Result
from tests.factories import new_job
from tests.fakes.plans import Watched

JOBS = 100
SLOTS = 1_000
FREE = 200
"""Of which a tenth of SLOTS is kept, and JOBS are dealt."""
LEASE = timedelta(seconds=90)
PAUSED = ScopeId(999_999)

LIKE = new_job()
"""Every job says what this one says."""

# Due over some time, so that a backlog has a past; all of a scope's in one lane.
FILL = """
WITH made AS (
  INSERT INTO outgoing (event_id, scope_id, channel, max_attempts, expires_at, created_at, due_at)
  SELECT gen_random_uuid(), $3 + n % $2, 'email', 3, now() + interval '1 day', now(), now() - $4::interval * n / $1
  FROM generate_series(1, $1::int) AS n
  RETURNING job_id
)
INSERT INTO content (job_id, event_type, recipient_id, file_version, terms, body)
SELECT job_id, 'note', 'bob', 1, $5, $6
FROM made
"""
FINISH = "UPDATE outgoing SET status = 'SENT', finished_at = now() WHERE status = 'PENDING'"
HOUR = timedelta(hours=1)
MOMENT = timedelta(seconds=10)


async def claim_flat_backlog(bench: Bench) -> Result:
    """A claim among a million due jobs against one among ten thousand."""
    buffers = {}
    for rows in (10_000, 1_000_000):
        bench.say(f"claim_flat_backlog: {rows} due jobs")
        async with bench.database() as database:
            await fill(database, rows, scopes=10, within=HOUR)
            buffers[rows] = await _claim_buffers(database)
    few, many = buffers.values()
    return {"bench": "claim_flat_backlog", "ratio": round(many / few, 2), "buffers": buffers}


async def claim_flat_tenants(bench: Bench) -> Result:
    """A claim from a thousand scopes against one from a single scope, a hundred thousand due jobs each."""
    buffers = {}
    for scopes in (1, 1_000):
        bench.say(f"claim_flat_tenants: {scopes} scopes")
        async with bench.database() as database:
            await fill(database, 100_000, scopes=scopes, within=HOUR)
            buffers[scopes] = await _claim_buffers(database)
    one, many = buffers.values()
    return {"bench": "claim_flat_tenants", "ratio": round(many / one, 2), "buffers": buffers}


async def claim_old_snapshot(bench: Bench) -> Result:
    """A claim beside what an old snapshot keeps and a paused tenant with an old head, against one without all that.

    Kept are a million jobs that came due over an hour, up to a moment ago, and are finished.
    """
    bench.say("claim_old_snapshot: without")
    async with bench.database() as database:
        await fill(database, 10_000, scopes=10, within=MOMENT)
        without = await _claim_buffers(database)
    bench.say("claim_old_snapshot: with a million finished jobs under it")
    async with bench.databases.fresh() as url:
        database = Database(url)
        try:
            await fill(database, 1_000_000, scopes=10, within=HOUR)
            async with _old_snapshot(url), database.hot(timedelta(minutes=5)) as pg:
                await pg.execute(FINISH, timeout=300)
                await fill(database, 1, scopes=1, within=timedelta(days=2), first=PAUSED)
                await fill(database, 10_000, scopes=10, within=MOMENT)
                under = await _claim_buffers(database, has_paused=True)
        finally:
            await database.close()
    return {
        "bench": "claim_old_snapshot",
        "ratio": round(under / without, 2),
        "buffers": {"without": without, "under_snapshot": under},
    }


async def fill(database: Database, rows: int, *, scopes: int, within: timedelta, first: int = 1) -> None:
    """Make ``rows`` jobs of ``scopes`` scopes from ``first`` on, due over the time ``within`` up to now."""
    async with database.hot(timedelta(minutes=10)) as pg:
        await pg.execute(FILL, rows, scopes, first, within, LIKE.terms, LIKE.body, timeout=600)
        await pg.execute("ANALYZE outgoing, content", timeout=600)


async def _claim_buffers(database: Database, *, has_paused: bool = False) -> int:
    """The pages that the product's next claim of JOBS jobs touches, after it has looked about as it does."""
    rounds = Rounds(Channel.EMAIL, SLOTS)
    await rounds.look(Doorbell(), database)
    if has_paused:
        await _until_known(rounds, database, PAUSED)
    shares = rounds.shares(FREE, most_of=lambda scope: 0 if scope == PAUSED else any_number(scope))[:JOBS]
    async with database.hot(timedelta(minutes=5)) as pg, _undone(pg):
        watched: Any = Watched(pg)
        taken = await claim(watched, Channel.EMAIL, shares, LEASE, "bench")
        if len(taken) != JOBS:
            raise SystemExit(f"{len(taken)} jobs were claimed instead of {JOBS}")
        return int(watched.buffers)


async def _until_known(rounds: Rounds, database: Database, scope_id: ScopeId) -> None:
    """Looked at, not guessed: nobody wakes a scope for a job of two days ago."""
    async with asyncio.timeout(120):
        while not rounds.shares(1, most_of=lambda scope: int(scope == scope_id)):
            await asyncio.sleep(0.1)
            await rounds.look(Doorbell(), database)


@asynccontextmanager
async def _undone(pg: HotConnection) -> AsyncIterator[None]:
    transaction = pg.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


@asynccontextmanager
async def _old_snapshot(url: str) -> AsyncIterator[None]:
    """Somebody's report that began now and does not end: what is finished meanwhile stays in every index."""
    connection = await asyncpg.connect(url, timeout=30)
    try:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await connection.fetchval("SELECT count(*) FROM tenants")
        yield
    finally:
        await connection.close(timeout=10)
