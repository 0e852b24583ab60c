"""A breaker: whether anything gets through a circuit, as one process has seen it, and when to try again."""

import time
from collections.abc import Callable

from shared.delivery.witnesses import ENOUGH, YIELD_SECONDS, Recipient, Witnesses

FAILURES_TO_OPEN = ENOUGH
"""Silences in a row, with nothing in between that got through; a recipient's count once."""
FIRST_REST_SECONDS = 2.0
LONGEST_REST_SECONDS = 30.0
ANY = 1_000_000
"""Room for as many jobs as there are slots."""


class Breaker:
    """One circuit: a relay, an FCM project or a push host.

    Closed, everything goes through. Open, nothing does for a while that doubles each time; then one job is let
    through as a probe, and what becomes of it decides.
    """

    def __init__(self, probe_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """``probe_seconds``: after which a probe that has told nothing is given up. ``clock``: in seconds."""
        self._probe_seconds = probe_seconds
        self._clock = clock
        self._failures = 0
        self._rests = 0
        self._open_until: float | None = None
        self._probing_until = 0.0
        self._through_at: float | None = None
        self._witnesses = Witnesses()

    def room(self) -> int:
        """How many jobs may start: ANY, 1 (a probe) or 0."""
        if self._open_until is None:
            return ANY
        return 1 if self.wait_seconds() <= 0 else 0

    def wait_seconds(self, recipient: Recipient | None = None) -> float:
        """How long a job for ``recipient`` has to wait; not above 0 when it may go through now."""
        if self._open_until is None:
            return 0.0
        rested = self._open_until + (YIELD_SECONDS if recipient in self._witnesses else 0.0)
        return max(rested, self._probing_until) - self._clock()

    def admit(self, recipient: Recipient | None = None) -> float:
        """0 when a job for ``recipient`` goes through now (as the probe, where one is due), else how long it waits."""
        if self._open_until is None:
            return 0.0
        wait = self.wait_seconds(recipient)
        if wait > 0:
            return wait
        self._probing_until = self._clock() + self._probe_seconds
        return 0.0

    def note_answer(self, *, through: bool) -> None:
        """The circuit answered; ``through``: and it worked, whatever it said of the message."""
        self._failures = self._rests = 0
        self._open_until = None
        self._witnesses.forget()
        if through:
            self._through_at = self._clock()

    def note_failure(self, recipient: Recipient | None = None) -> bool:
        """Nobody answered, or the service would not work; whether that opened the breaker.

        Where it was for a ``recipient`` that has met this before, it is no news and opens nothing.
        """
        if self._open_until is None:
            self._failures += recipient is None or self._witnesses.note(recipient)
            if self._failures < FAILURES_TO_OPEN:
                return False
        elif self._clock() < self._open_until:
            # Sent before it opened: it tells nothing new.
            return False
        elif recipient is not None:
            self._witnesses.note(recipient)
        rest = min(FIRST_REST_SECONDS * 2.0 ** min(self._rests, 16), LONGEST_REST_SECONDS)
        self._rests += 1
        self._open_until = self._clock() + rest
        self._probing_until = 0.0
        return True

    def got_through_within(self, seconds: float) -> bool:
        """Whether something got through in the last ``seconds``."""
        return self._through_at is not None and self._clock() - self._through_at < seconds
