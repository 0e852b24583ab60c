"""The sends at once: long-lived tasks that take claimed jobs in turn."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from shared.logs import get_logger

log = get_logger()

T = TypeVar("T")

TURNS_IN_A_ROW = 32
"""After so many jobs that never had to wait a slot lets others have the loop: settling must not wait for it."""


class Slots(Generic[T]):
    """``count`` tasks at most, made when they are first needed, each of which does ``work`` on one thing at a time.

    A task for each job was a fifth of what a drained one costs. What ``work`` raises ends its slot, and is logged: the
    job is not lost, its lease runs out and it is claimed again.
    """

    def __init__(self, count: int, work: Callable[[T], Awaitable[None]]) -> None:
        self._count = count
        self._work = work
        self._given: deque[T] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: list[asyncio.Future[None]] = []
        self._busy_count = 0
        self._waking = False
        self._emptied = asyncio.Event()
        self._emptied.set()

    @property
    def taken_count(self) -> int:
        """How many things are being done, or wait for their slot."""
        return self._busy_count + len(self._given)

    @property
    def free_count(self) -> int:
        """How many more may be given."""
        return self._count - self.taken_count

    def give(self, thing: T) -> None:
        """Have ``thing`` done by the next slot."""
        self._given.append(thing)
        self._emptied.clear()
        self._wake_one()

    async def until_empty(self, seconds: float) -> bool:
        """Whether everything that was given is done within ``seconds``."""
        try:
            async with asyncio.timeout(seconds):
                await self._emptied.wait()
        except TimeoutError:
            return False
        return True

    def cut_off(self) -> None:
        """Cancel what is being done: each work notices it once, and ends."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """End every slot, whatever it does."""
        self.cut_off()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)

    def _wake_one(self) -> None:
        # One at a time: whoever wakes and sees more wakes the next. Where nothing has to wait, one slot does it all.
        if self._waking or not self._given:
            return
        while self._idle:
            idle = self._idle.pop()
            if not idle.done():
                self._waking = True
                idle.set_result(None)
                return
        if len(self._tasks) < self._count:
            self._waking = True
            task = asyncio.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("delivery.attempt_broke", exc_info=failure)

    async def _run(self) -> None:
        while True:
            self._waking = False
            turns = 0
            while self._given:
                await self._do(self._given.popleft())
                turns += 1
                if turns % TURNS_IN_A_ROW == 0:
                    await asyncio.sleep(0)
            idle = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle

    async def _do(self, thing: T) -> None:
        self._busy_count += 1
        self._wake_one()
        try:
            await self._work(thing)
        finally:
            self._busy_count -= 1
            if not self._busy_count and not self._given:
                self._emptied.set()
