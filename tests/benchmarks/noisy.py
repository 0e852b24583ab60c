"""A noisy neighbour: how long one tenant's single messages wait beside another's flood."""

import asyncio
import time
from datetime import timedelta

from services.cli.benching.cpu import machine_cpu_seconds
from services.cli.benching.team import Team, team
from services.cli.benching.worker import Order
from shared.ids import EventId
from shared.store.database import Database
from tests.benchmarks.claims import fill
from tests.benchmarks.harness import Bench, Result, percentile
from tests.factories import create_jobs, new_job

FLOOD = 100_000
FLOODING, QUIET = 1, 2
SLOTS = 100
PROVIDER_SECONDS = 0.1
MESSAGES = 50
PACE_SECONDS = 0.3
GOAL_MS = 1_500
PROCESSES = (1, 4)

# From the commit of the job to the call of the provider; the clocks are this machine's one.
WAITED = """
SELECT 1000 * extract(epoch FROM a.started_at - o.created_at)::float8 AS waited_ms
FROM outgoing o
JOIN attempts a USING (job_id)
WHERE o.event_id = ANY ($1::uuid[])
"""
LEFT = "SELECT count(*) FROM outgoing WHERE scope_id = $1 AND status = 'PENDING'"


async def noisy_tenant(bench: Bench) -> Result:
    """One tenant has 100,000 due jobs and a provider that takes 100 ms; the other posts a message now and then.

    No wake rings for it, as when the broker is away: the look once a second is all there is.
    """
    told: dict[str, object] = {"bench": "noisy_tenant", "goal_p99_ms": GOAL_MS, "wakes": False}
    for processes in PROCESSES:
        bench.say(f"noisy_tenant: {processes} × {SLOTS} slots, {MESSAGES} messages beside {FLOOD} jobs")
        told |= {f"{name}_{processes}": figure for name, figure in (await _measure(bench, processes)).items()}
    return told


async def _measure(bench: Bench, processes: int) -> dict[str, float]:
    log = bench.folder / f"noisy-{processes}.log"
    async with bench.databases.fresh() as url, team(processes, log) as workers:
        database = Database(url, pool_size=2, name="waybill bench")
        try:
            await fill(database, FLOOD, scopes=1, within=timedelta(minutes=1), first=FLOODING)
            await workers.ready(Order(url, SLOTS, PROVIDER_SECONDS))
            workers.go()
            return await _post_and_wait(database, workers)
        finally:
            await database.close()


async def _post_and_wait(database: Database, workers: Team) -> dict[str, float]:
    await asyncio.sleep(5 * PACE_SECONDS)  # until the flood has every slot that it may have
    cpu, began = machine_cpu_seconds(), time.monotonic()
    posted: list[EventId] = []
    for _ in range(MESSAGES):
        workers.require_alive()
        (made,) = await create_jobs(database, [new_job(scope_id=QUIET)])
        posted.append(made.event_id)
        await asyncio.sleep(PACE_SECONDS)
    waited = await _until_started(database, posted)
    left = await _left(database)
    busy = (machine_cpu_seconds() or 0.0) - (cpu or 0.0)
    return {
        "p50_ms": round(percentile(waited, 0.5)),
        "p99_ms": round(percentile(waited, 0.99)),
        "flood_left": left,
        "cores_used": round(busy / (time.monotonic() - began), 2),
    }


async def _until_started(database: Database, posted: list[EventId]) -> list[float]:
    async with asyncio.timeout(60):
        while True:
            async with database.hot() as pg:
                rows = await pg.fetch(WAITED, posted)
            if len(rows) >= len(posted):
                return [row["waited_ms"] for row in rows]
            await asyncio.sleep(0.1)


async def _left(database: Database) -> int:
    """How much of the flood was still due when the last message had started; 0 would prove nothing."""
    async with database.hot() as pg:
        return int(await pg.fetchval(LEFT, FLOODING))
