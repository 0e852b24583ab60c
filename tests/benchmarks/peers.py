"""Waybill beside the best queue for Python on the same Postgres: who wants to know installs it.

    python3 -m venv FOLDER && FOLDER/bin/pip install pgqueuer uvloop
    WAYBILL_TEST_PEERS=FOLDER make bench ARGS=drain_beside_peers

Without the variable the benchmark says that it was not run. It stays out of the locks: nobody else needs it.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import TypedDict

from tests.benchmarks.drain import JOBS, drain_with_worker
from tests.benchmarks.harness import Bench, Result

PEERS = "WAYBILL_TEST_PEERS"
ROUNDS = 3
SCRIPT = Path(__file__).with_name("pgqueuer_drain.py")
PEER_SECONDS = 180


class Took(TypedDict):
    """What a peer's drain took."""

    seconds: float
    cpu_seconds: float


async def drain_beside_peers(bench: Bench) -> Result:
    """No-op jobs drained by one process of ours and by one of pgqueuer in turn, the same number of each."""
    if (folder := os.environ.get(PEERS)) is None:
        return {"bench": "drain_beside_peers", "against_pgqueuer": None, "not_run": f"{PEERS} is not set"}
    ours, theirs = [], []
    for turn in range(ROUNDS):
        bench.say(f"drain_beside_peers: round {turn + 1} of {ROUNDS}")
        ours.append(await drain_with_worker(bench))
        theirs.append(await _pgqueuer(bench, Path(folder)))
    (rate, cpu), (peer_rate, peer_cpu) = max(ours), max(theirs)
    return {
        "bench": "drain_beside_peers",
        "against_pgqueuer": round(rate / peer_rate, 2),
        "jobs_per_second": round(rate),
        "pgqueuer_per_second": round(peer_rate),
        "cpu_us_per_job": round(cpu),
        "pgqueuer_cpu_us_per_job": round(peer_cpu),
    }


async def _pgqueuer(bench: Bench, folder: Path) -> tuple[float, float]:
    """Jobs per second of pgqueuer, and its process's CPU in µs per job."""
    async with bench.databases.fresh(template="template0") as url:
        process = await asyncio.create_subprocess_exec(
            folder / "bin" / "python", SCRIPT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(PEER_SECONDS):
                printed, _ = await process.communicate(json.dumps({"url": url, "jobs": JOBS}).encode())
        finally:
            if process.returncode is None:
                process.kill()
    took: Took = json.loads(printed)
    return JOBS / took["seconds"], 1e6 * took["cpu_seconds"] / JOBS
