"""One time limit for many attempts at once."""

import asyncio


class TimeLimit:
    """Cancels tasks that take longer than ``seconds``.

    All have the same limit, so they run out in the order in which they began, and one timer serves them all: a timer
    for each was a twentieth of what a drained job costs.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends: dict[asyncio.Task[object], float] = {}
        self._expired: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, task: "asyncio.Task[object]") -> None:
        """From now on ``task`` has its time, until ``end``."""
        loop = asyncio.get_running_loop()
        self._ends[task] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._cancel_expired)

    def end(self, task: "asyncio.Task[object]") -> bool:
        """Whether ``task`` was cancelled because its time was over; it is not watched any longer."""
        self._ends.pop(task, None)
        if task not in self._expired:
            return False
        self._expired.discard(task)
        task.uncancel()
        return True

    def _cancel_expired(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        for task, end in list(self._ends.items()):
            if end > loop.time():
                self._timer = loop.call_at(end, self._cancel_expired)
                return
            del self._ends[task]
            self._expired.add(task)
            task.cancel()
