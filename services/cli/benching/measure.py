"""One run of an experiment: a database of its own, a backlog, some worker processes, and what they made of it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from services.cli.benching.backlog import CHANNEL, fill
from services.cli.benching.cpu import machine_cpu_seconds, tree_cpu_seconds
from services.cli.benching.figures import Run, count_duplicates, steady_rate
from services.cli.benching.plan import Experiment
from services.cli.benching.team import Team, team
from services.cli.benching.worker import Order
from services.cli.exits import CommandFailed
from shared.store.database import Database
from shared.store.drained import finish_times, sent_count
from shared.store.scratch import ScratchDatabases

LOOK_SECONDS = 0.1
STALL_SECONDS = 60.0

Tell = Callable[[int], None]
"""Called with the number of jobs that are done, now and then."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where runs are measured: databases to use up, a folder for log files, and the server's process.

    ``postgres_pid`` None: the server is somebody else's; its CPU is not known and its settings are left alone.
    """

    databases: ScratchDatabases
    folder: Path
    postgres_pid: int | None

    def postgres_cpu(self) -> float | None:
        """CPU seconds of Postgres so far, or None when they are not known."""
        return None if self.postgres_pid is None else tree_cpu_seconds(self.postgres_pid)


async def measure(site: Site, experiment: Experiment, workers: int, tell: Tell) -> Run:
    """What ``workers`` processes made of the experiment's backlog.

    Raises CommandFailed when a process dies or nothing gets done for a minute.
    """
    jobs = experiment.jobs_of(workers)
    log = site.folder / f"{experiment.name}-{workers}.log"
    async with site.databases.fresh() as url, team(workers, log) as processes:
        database = Database(url, pool_size=2, name="waybill bench")
        try:
            await fill(database, jobs, durable_start=site.postgres_pid is not None)
            await processes.ready(Order(url, experiment.slots, experiment.provider.total_seconds()))
            postgres, machine, began = site.postgres_cpu(), machine_cpu_seconds(), time.monotonic()
            processes.go()
            await _until_sent(database, jobs, processes, tell)
            seconds = time.monotonic() - began
            postgres, machine = _since(postgres, site.postgres_cpu()), _since(machine, machine_cpu_seconds())
            reports = await processes.finish()
            async with database.hot() as pg:
                finished = await finish_times(pg, CHANNEL)
        finally:
            await database.close()
    log.unlink()  # a line per job: many of them, when all runs are done
    return Run(
        workers,
        jobs,
        steady_rate(finished, experiment.wave(workers), seconds),
        seconds,
        sum(report.cpu_seconds for report in reports),
        postgres,
        machine,
        count_duplicates(report.given for report in reports),
    )


async def _until_sent(database: Database, jobs: int, processes: Team, tell: Tell) -> None:
    done, moved_at = 0, time.monotonic()
    while done < jobs:
        await asyncio.sleep(LOOK_SECONDS)
        processes.require_alive()
        async with database.hot() as pg:
            now_done = await sent_count(pg)
        if now_done != done:
            done, moved_at = now_done, time.monotonic()
            tell(done)
        elif time.monotonic() - moved_at > STALL_SECONDS:
            raise CommandFailed(
                f"nothing was sent for {STALL_SECONDS:g} s, {done} of {jobs} jobs are done; the last thing a worker"
                f" said: {processes.last_words()}"
            )


def _since(before: float | None, now: float | None) -> float | None:
    return None if before is None or now is None else now - before
