"""What one rendering may cost: steps, loop rounds, output, and time on the processor."""

import gc
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo

from babel import Locale
from liquid import BoundTemplate, RenderContext
from liquid.exceptions import FilterArgumentError, LoopIterationLimitError, ResourceLimitError

MAX_SOURCE_CHARACTERS = 64 * 1024
MAX_OUTPUT_BYTES = 512 * 1024
MAX_NAMESPACE_BYTES = 512 * 1024
MAX_VALUE_CHARACTERS = 256 * 1024
"""The longest string a filter takes or makes: the largest payload."""
MAX_ITEMS = 1000
"""The longest list a filter takes or makes, and the longest range."""
MAX_LOOP_ROUNDS = 10_000
MAX_STEPS = 200_000
MAX_CPU_SECONDS = 0.25


class BadValue(FilterArgumentError):
    """A value a filter cannot work with; the text never quotes it."""

    def __init__(self, what: str) -> None:
        super().__init__(what, token=None)


@dataclass(frozen=True, slots=True)
class Voice:
    """For whom values are written out: the locale of the chosen variant and the recipient's zone."""

    locale: Locale
    zone: tzinfo


class _Collections:
    """The processor time that garbage collections took: they are the process's, not the template's."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _info: object) -> None:
        now = time.thread_time()
        if phase == "start":
            self._began = now
        else:
            self.seconds += now - self._began


_COLLECTIONS = _Collections()


def _cpu_seconds() -> float:
    return time.thread_time() - _COLLECTIONS.seconds


class Budget:
    """What is left for the templates of one channel of one event.

    Steps and rounds decide first and always alike; the clock is the net below them. It is the thread's own
    processor time without garbage collections, so that neither a busy machine nor a large process fails
    anybody's mail.
    """

    def __init__(self, cpu_seconds: float = MAX_CPU_SECONDS) -> None:
        self._steps = 0
        self._rounds = 0
        self._until = _cpu_seconds() + cpu_seconds

    def step(self) -> None:
        """Count one node or filter; raises ResourceLimitError when the budget is used up."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise ResourceLimitError("takes too many steps", token=None)
        if self._steps % 32 == 0 and _cpu_seconds() > self._until:
            raise ResourceLimitError("takes too long", token=None)

    def loop(self, rounds: int) -> None:
        """Count a loop that is about to run ``rounds`` times."""
        self._rounds += rounds
        if self._rounds > MAX_LOOP_ROUNDS:
            raise LoopIterationLimitError(f"loops more than {MAX_LOOP_ROUNDS} times", token=None)


class BoundedContext(RenderContext):
    """A render context that counts, and that knows for whom it writes."""

    def __init__(self, template: BoundTemplate, variables: Mapping[str, object], voice: Voice, budget: Budget) -> None:
        super().__init__(template, globals=variables)
        self.voice = voice
        self.budget = budget

    def raise_for_loop_limit(self, length: int = 1) -> None:
        """Count the rounds of every loop, nested or one after the other."""
        self.budget.loop(length)
