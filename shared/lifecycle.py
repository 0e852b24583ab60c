"""The parts of a process: started together, started again when they fail, stopped together."""

import asyncio
import gc
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shared.logs import get_logger

log = get_logger()

GRACE_SECONDS = 8.0
"""What parts get to finish what is in flight. The whole stop fits 10 s: the rest is for closing pools."""
CANCEL_SECONDS = 1.0
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0
HEALTHY_SECONDS = 60.0
"""A part that ran this long before it failed starts again with the first pause."""
IMPATIENT_SECONDS = 1.0
GARBAGE_THRESHOLD = 20_000
"""Objects made and not freed before the collector looks; Python's own is 700."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Part:
    """One thing a process does all the time.

    ``run(stop)`` works until ``stop`` is set, then finishes what is in flight and returns.
    """

    name: str
    run: Callable[[asyncio.Event], Awaitable[None]]


class Heart:
    """The heartbeat of a loop: it counts as alive while the last beat is younger than ``limit``."""

    def __init__(self, limit: timedelta = timedelta(seconds=60)) -> None:
        self.limit = limit
        self._beaten_at = time.monotonic()

    def beat(self) -> None:
        """Say that the loop has come round once more."""
        self._beaten_at = time.monotonic()

    def age_seconds(self) -> float:
        """The seconds since the last beat (since birth, when there was none)."""
        return time.monotonic() - self._beaten_at

    def is_alive(self) -> bool:
        """Whether the last beat is younger than the limit."""
        return self.age_seconds() < self.limit.total_seconds()


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run ``main`` to its end on the loop the services are made for: uvloop, where there is one."""
    calm_collector()
    try:
        import uvloop  # noqa: PLC0415 - it may be missing
    except ImportError:  # there is none for Windows
        asyncio.run(main)
    else:
        uvloop.run(main)


def calm_collector() -> None:
    """Have the garbage collector look at what was made since the start only, and less often.

    Jobs in flight are thousands of small objects that come and go without cycles: looking through them cost a sixth of
    what a drained job takes.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD, 20, 20)


async def stopped_within(stop: asyncio.Event, seconds: float) -> bool:
    """Whether ``stop`` was set within ``seconds``: the pause of every loop."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return stop.is_set()
    return True


async def any_set(*events: asyncio.Event) -> None:
    """Wait until one of ``events`` is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


def pause_after(failures: int) -> float:
    """The seconds to wait after the ``failures``-th failure in a row (1, 2, …)."""
    return min(FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 10), LONGEST_PAUSE_SECONDS)


async def failure_of(work: Awaitable[None]) -> BaseException | None:
    """What made ``work`` fail, or None when it did not; the cancellation of the calling task passes through."""
    try:
        await work
    except asyncio.CancelledError as exc:
        # A lost broker connection cancels futures that nobody cancelled: that is a failure, not our end.
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return exc
    except Exception as exc:  # noqa: BLE001 - one of the two broad ones: the runner of background loops
        return exc
    return None


async def run_parts(parts: Sequence[Part], stop: asyncio.Event, grace_seconds: float = GRACE_SECONDS) -> None:
    """Run all ``parts`` until ``stop`` is set and they are done, or all have returned by themselves.

    A part that raises is logged and started again after a growing pause. After ``stop`` the parts have
    ``grace_seconds``; what still runs then is cancelled.
    """
    tasks = {asyncio.create_task(_keep_running(part, stop), name=part.name) for part in parts}
    stopping = asyncio.create_task(stop.wait())
    try:
        await _first_of(stopping, tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=grace_seconds)
    finally:
        left = {task for task in tasks if not task.done()}
        if left:
            log.warning("parts.cancelled", parts=sorted(task.get_name() for task in left))
        for task in (*left, stopping):
            task.cancel()
        # One that ignores its cancellation must not keep the process from ending.
        await asyncio.wait({*left, stopping}, timeout=CANCEL_SECONDS)


def install_signal_handlers(stop: asyncio.Event) -> None:
    """Let INT, TERM and HUP set ``stop``, also where they were ignored at start; a second one ends at once.

    A second signal counts only a second after the first: make passes TERM on to its child, so one TERM to
    the process group arrives twice.
    """
    loop = asyncio.get_running_loop()
    first_at: list[float] = []

    def receive(number: signal.Signals) -> None:
        now = time.monotonic()
        if not first_at:
            first_at.append(now)
            log.info("stop.requested", signal=number.name)
            stop.set()
        elif now - first_at[0] >= IMPATIENT_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    for number in SIGNALS:
        loop.add_signal_handler(number, receive, number)


async def _first_of(stopping: asyncio.Task[bool], tasks: set[asyncio.Task[None]]) -> None:
    running = set(tasks)
    while running and not stopping.done():
        await asyncio.wait({*running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        running = {task for task in running if not task.done()}


async def _keep_running(part: Part, stop: asyncio.Event) -> None:
    failures = 0
    while not stop.is_set():
        started = time.monotonic()
        failure = await failure_of(part.run(stop))
        if failure is None:
            if not stop.is_set():
                log.info("part.finished", part=part.name)
            return
        ran_seconds = time.monotonic() - started
        failures = 1 if ran_seconds >= HEALTHY_SECONDS else failures + 1
        pause = pause_after(failures)
        log.error("part.failed", part=part.name, again_in_s=pause, exc_info=failure)
        await stopped_within(stop, pause)
