"""The worker processes of one run, as their parent sees them: ready together, started together, read, ended."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from services.cli.benching.worker import READY, Order, Report
from services.cli.exits import CommandFailed

READY_SECONDS = 120.0
"""Generous: many interpreters start on few cores."""
FINISH_SECONDS = 30.0
# -P: a folder called "services" where the command is run must not be taken for ours.
_COMMAND = (sys.executable, "-P", "-m", "services.cli.benching.worker")


class Team:
    """Running worker processes, waiting for the start; what each reports comes to a file of ``reports``."""

    def __init__(self, processes: list[Process], log: Path, reports: list[Path]) -> None:
        self._processes = processes
        self._log = log
        self._reports = reports

    async def ready(self, order: Order) -> None:
        """Give everybody the order and wait until all are connected to Postgres."""
        line = msgspec.json.encode(order) + b"\n"
        async with asyncio.timeout(READY_SECONDS):
            for process in self._processes:
                _input_of(process).write(line)
            for process in self._processes:
                if await _output_of(process).readline() != READY:
                    raise self._failure()

    def go(self) -> None:
        """Let all begin."""
        for process in self._processes:
            _input_of(process).write(b"\n")

    def require_alive(self) -> None:
        """CommandFailed when one has ended by itself."""
        if any(process.returncode is not None for process in self._processes):
            raise self._failure()

    async def finish(self) -> list[Report]:
        """Let all end, and what each of them did."""
        for process in self._processes:
            _input_of(process).close()
        async with asyncio.timeout(FINISH_SECONDS):
            codes = [await process.wait() for process in self._processes]
        if any(codes):
            raise self._failure()
        # Files, and not what they print: a process's last output may be lost with it when it is long.
        return [msgspec.json.decode(report.read_bytes(), type=Report) for report in self._reports]

    def last_words(self) -> str:
        """The last line in the log."""
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "nothing"

    def _failure(self) -> CommandFailed:
        return CommandFailed(f"a worker process ended by itself; it said: {self.last_words()}")


@asynccontextmanager
async def team(size: int, log: Path) -> AsyncIterator[Team]:
    """``size`` worker processes that log to ``log``; none is left at the end of the block."""
    reports = [log.with_suffix(f".{number}.json") for number in range(size)]
    processes: list[Process] = []
    try:
        with log.open("wb") as file:
            for report in reports:
                processes.append(  # noqa: PERF401 - those started before a failure must be known to be ended
                    await asyncio.create_subprocess_exec(*_COMMAND, report, stdin=PIPE, stdout=PIPE, stderr=file)
                )
        yield Team(processes, log, reports)
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def _input_of(process: Process) -> asyncio.StreamWriter:
    assert process.stdin is not None  # noqa: S101 - made with a pipe
    return process.stdin


def _output_of(process: Process) -> asyncio.StreamReader:
    assert process.stdout is not None  # noqa: S101 - made with a pipe
    return process.stdout
