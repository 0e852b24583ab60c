"""What a process takes up while a proof goes on: memory as the system sees it, connections as the peer does."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from shared.lifecycle import stopped_within
from tests.fakes.lines import Lines

EVERY_SECONDS = 1.0


@dataclass(frozen=True)
class Footprint:
    """Resident memory in MiB, and open connections to the peer."""

    memory: float
    connections: int


class Watched:
    """One process and its connections to one peer. ``most``: the most there was of each."""

    def __init__(self, pid: int, lines: Lines) -> None:
        self._pid = pid
        self._lines = lines
        self.most = Footprint(0.0, 0)

    async def now(self) -> Footprint:
        """What it takes up now."""
        resident = await asyncio.to_thread(self._resident_kib)
        return Footprint(round(resident / 1024, 1), self._lines.open_count)

    def _resident_kib(self) -> int:
        command = ["ps", "-o", "rss=", "-p", str(self._pid)]
        return int(subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout)

    async def watch(self, over: asyncio.Event) -> None:
        """Look every second until ``over``."""
        while not await stopped_within(over, EVERY_SECONDS):
            now = await self.now()
            self.most = Footprint(max(self.most.memory, now.memory), self._lines.most_at_once)


@asynccontextmanager
async def watched(pid: int, lines: Lines) -> AsyncIterator[Watched]:
    """The process, watched during the block."""
    over, one = asyncio.Event(), Watched(pid, lines)
    watching = asyncio.create_task(one.watch(over))
    try:
        yield one
    finally:
        over.set()
        await watching
