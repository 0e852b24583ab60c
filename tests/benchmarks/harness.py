"""What every benchmark needs: a durable Postgres, progress on the terminal, logs in a file, and ratios."""

import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO

from shared import logs
from shared.store.database import Database
from shared.store.scratch import ScratchDatabases, Server, throw_away_server

ROOT = Path(__file__).resolve().parents[2]

Result = dict[str, object]
"""One measurement: ``bench`` and its figures; printed as one line of JSON."""


class Bench:
    """Where one run of benchmarks works: ``databases`` on a durable server, ``folder`` for what processes print."""

    def __init__(self, server: Server, folder: Path, terminal: IO[str]) -> None:
        self.server = server
        self.databases = ScratchDatabases(server.url)
        self.folder = folder
        self._terminal = terminal

    def say(self, text: str) -> None:
        """Tell whoever waits what is going on."""
        print(text, file=self._terminal, flush=True)

    @asynccontextmanager
    async def database(self, pool_size: int = 10) -> AsyncIterator[Database]:
        """A fresh database of this release's schema."""
        async with self.databases.fresh() as url:
            database = Database(url, pool_size=pool_size)
            try:
                yield database
            finally:
                await database.close()


@contextmanager
def quiet_logs(folder: Path) -> Iterator[IO[str]]:
    """Log lines go to a file, as in a container; what comes out is the terminal."""
    terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w")
    with (folder / "bench.log").open("ab") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
        logs.configure(json=True)
        try:
            yield terminal
        finally:
            os.dup2(terminal.fileno(), sys.stderr.fileno())  # a traceback is for whoever waits


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    """A place to measure in, on a Postgres that waits for the disk at every commit."""
    with tempfile.TemporaryDirectory() as folder, quiet_logs(Path(folder)) as terminal:
        with throw_away_server(ROOT / ".waybill", "bench-postgres-", durable=True) as server:
            place = Bench(server, Path(folder), terminal)
            await place.databases.make_template()
            yield place


def report(result: Result) -> None:
    """One line on standard output."""
    print(json.dumps(result), flush=True)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` (0 to 1) of ``values`` lie."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


class Stopwatch:
    """Wall and CPU time of this process since it was started."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    @property
    def seconds(self) -> float:
        """Wall time in seconds."""
        return time.perf_counter() - self._wall

    @property
    def cpu_seconds(self) -> float:
        """CPU time of this process in seconds."""
        return time.process_time() - self._cpu
