"""Drains no-op jobs with pgqueuer, as its own command does it; run by the interpreter of the peers' environment.

Reads ``{"url": …, "jobs": …}`` from standard input and prints ``{"seconds": …, "cpu_seconds": …}``. The clock starts
when the jobs are there and stops when the last one is recorded as done, as for Waybill's own drain.
"""

import asyncio
import json
import sys
import time

import asyncpg
import uvloop
from pgqueuer import PgQueuer  # type: ignore[import-not-found] # in the peers' own environment
from pgqueuer.db import AsyncpgDriver  # type: ignore[import-not-found]
from pgqueuer.queries import Queries  # type: ignore[import-not-found]

BATCH = 100
"""More brought nothing, its default of 10 a fifth."""
FILL = 1_000
PAYLOAD = json.dumps({"subject": "Hello", "to": "bob@example.com", "text": "x" * 200}).encode()


async def drain(url: str, jobs: int) -> dict[str, float]:
    """What it took to drain ``jobs`` jobs in the empty database at ``url``."""
    watch = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(watch))
    await queries.install()
    for start in range(0, jobs, FILL):
        count = min(FILL, jobs - start)
        await queries.enqueue(["noop"] * count, [PAYLOAD] * count, [0] * count)
    await watch.execute("VACUUM (ANALYZE)")
    await watch.execute("CHECKPOINT")
    queue = PgQueuer(AsyncpgDriver(await asyncpg.connect(url)))

    @queue.entrypoint("noop")  # type: ignore[untyped-decorator]
    async def noop(job: object) -> None:
        json.loads(job.payload)  # type: ignore[attr-defined]

    began, cpu = time.perf_counter(), time.process_time()
    running = asyncio.create_task(queue.run(batch_size=BATCH))
    while await watch.fetchval("SELECT EXISTS (SELECT FROM pgqueuer)"):
        await asyncio.sleep(0.02)
    took = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    queue.shutdown.set()
    await running
    return took


if __name__ == "__main__":
    print(json.dumps(uvloop.run(drain(**json.load(sys.stdin)))))
