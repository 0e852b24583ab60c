"""Products that go on posting through an outage as they should: what was not answered with 202 they post again."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from shared.lifecycle import stopped_within
from tests.fakes.product import eventually
from tests.fakes.somebody import Somebody

PAUSE_SECONDS = 0.1
DEADLINE_SECONDS = 60.0


class Traffic:
    """One product that posts a booking every tenth of a second, each under a key of its own, until it is accepted."""

    def __init__(self, somebody: Somebody) -> None:
        self._somebody = somebody
        self._stop = asyncio.Event()
        self.accepted: list[str] = []
        self.answers: Counter[int] = Counter()
        """How often each status was answered."""
        self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        for number in itertools.count(1):
            self.accepted.append(await self._accepted(f"{self._somebody.name}-{number}"))
            if await stopped_within(self._stop, PAUSE_SECONDS):
                return

    async def _accepted(self, key: str) -> str:
        while True:
            answer = await self._somebody.post(key=key)
            self.answers[answer.status_code] += 1
            if answer.status_code == 202:
                event_id: str = answer.json()["id"]
                return event_id
            assert answer.status_code == 503, answer.text
            assert int(answer.headers["Retry-After"]) > 0
            await asyncio.sleep(PAUSE_SECONDS)

    async def end(self) -> None:
        """Post what is under way until it is accepted, and no more."""
        self._stop.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self._running

    def cut_off(self) -> None:
        """End at once, whatever is under way."""
        self._running.cancel()

    async def goes_on(self, count: int = 5) -> None:
        """Return once ``count`` more events were accepted."""
        wanted = len(self.accepted) + count
        await self._until(lambda: len(self.accepted) >= wanted)

    async def is_refused(self, count: int = 2) -> None:
        """Return once ``count`` more posts were answered with 503."""
        wanted = self.answers[503] + count
        await self._until(lambda: self.answers[503] >= wanted)

    async def _until(self, reached: Callable[[], bool]) -> None:
        async def reached_or_broken() -> bool:
            return reached() or self._running.done()

        await eventually(reached_or_broken, seconds=DEADLINE_SECONDS)
        if self._running.done():
            self._running.result()


@asynccontextmanager
async def traffic_of(somebody: Somebody) -> AsyncIterator[Traffic]:
    """The traffic of one product during the block; after it, everything it posted was accepted."""
    traffic = Traffic(somebody)
    try:
        yield traffic
        await traffic.end()
    finally:
        traffic.cut_off()
