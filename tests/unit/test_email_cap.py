"""A sender's cap: even distances, no more than the patience on the spot, and a backlog that is not claimed in vain."""

import asyncio
from datetime import timedelta
from heapq import heappop, heappush
from itertools import count, pairwise

import pytest

from services.email.cap import LONGEST_HOLD, Cap
from shared.delivery.provider import Held

SLOTS = 10


class Timeline:
    """Time that passes as soon as everybody waits for it."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = count()

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            until = asyncio.get_running_loop().create_future()
            heappush(self._waiting, (self.now + seconds, next(self._numbers), until))
            await until

    async def pass_while(self, working: "asyncio.Future[list[None]]") -> None:
        while not working.done():
            for _ in range(SLOTS):
                await asyncio.sleep(0)
            if self._waiting:
                self.now, _, until = heappop(self._waiting)
                until.set_result(None)


@pytest.fixture
def time() -> Timeline:
    return Timeline()


class Worker:
    """So many slots, and jobs that are due again when they were held, as the engine has them."""

    def __init__(self, time: Timeline, cap: Cap, per_second: float) -> None:
        self.time, self.cap, self.per_second = time, cap, per_second
        self.sent: list[float] = []
        self.held: list[Held] = []
        self._due: list[tuple[float, int]] = []

    async def work_off(self, jobs: int) -> None:
        self._due = [(self.time(), number) for number in range(jobs)]
        await self.time.pass_while(asyncio.gather(*(self._slot(jobs) for _ in range(SLOTS))))

    async def _slot(self, jobs: int) -> None:
        while len(self.sent) < jobs:
            if not self._due or self._due[0][0] > self.time():
                await self.time.sleep(0.1)
                continue
            _, number = heappop(self._due)
            held = await self.cap.turn("a", self.per_second)
            if held is None:
                self.sent.append(self.time())
            else:
                self.held.append(held)
                heappush(self._due, (self.time() + held.wait.total_seconds(), number))


@pytest.mark.parametrize("per_second", [0.2, 1, 3, 100])
async def test_a_backlog_goes_out_at_the_cap_and_few_jobs_are_claimed_in_vain(
    time: Timeline, per_second: float
) -> None:
    worker = Worker(time, Cap(3.5, time, time.sleep), per_second)
    began = time()
    await worker.work_off(200)
    assert min(later - one for one, later in pairwise(worker.sent)) >= 1 / per_second - 1e-6
    seconds = worker.sent[-1] - began
    assert seconds <= 199 / per_second * 1.1 + 1
    assert len(worker.held) <= SLOTS * (seconds / 3.5 + 1)


async def test_after_a_rest_nothing_is_made_up_for(time: Timeline) -> None:
    worker = Worker(time, Cap(3.5, time, time.sleep), 4)
    await worker.work_off(1)
    time.now += 100
    worker.sent.clear()
    await worker.work_off(3)
    assert [at - worker.sent[0] for at in worker.sent] == pytest.approx([0, 0.25, 0.5])


async def test_one_senders_cap_is_none_of_anothers(time: Timeline) -> None:
    cap = Cap(0.0, time, time.sleep)
    assert await cap.turn("a", 1) is None
    assert isinstance(await cap.turn("a", 1), Held)
    assert await cap.turn("b", 1) is None


async def test_nobody_is_sent_away_for_longer_than_a_minute(time: Timeline) -> None:
    cap = Cap(0.0, time, time.sleep)
    assert await cap.turn("a", 0.01) is None
    assert await cap.turn("a", 0.01) == Held(timedelta(seconds=LONGEST_HOLD))
