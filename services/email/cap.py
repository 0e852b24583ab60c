"""How many mails a second one sender hands over, so that a relay's limit is kept rather than hit."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from shared.delivery.provider import Held

LONGEST_HOLD = 60.0
"""Seconds. Whoever would wait longer asks again by then: the cap may have been lifted meanwhile."""


@dataclass(slots=True)
class _Flow:
    """One sender's: when its next mail may go, and when the next of those that were sent away may come back."""

    free_at: float = 0.0
    booked_until: float = 0.0


class Cap:
    """Keeps each sender of this process under its own cap, with even distances between its mails."""

    def __init__(self, patience: float, clock: Callable[[], float] = time.monotonic) -> None:
        """``patience``: the longest that a mail waits on the spot, in seconds."""
        self._patience = patience
        self._clock = clock
        self._flows: dict[str, _Flow] = {}

    def take(self, sender: str, per_second: float) -> float | Held:
        """In how many seconds a mail of ``sender`` goes: its place is taken. Held: it must ask again."""
        now, step = self._clock(), 1 / per_second
        flow = self._flows.setdefault(sender, _Flow())
        flow.free_at = max(flow.free_at, now)
        if flow.free_at - now <= self._patience:
            flow.free_at += step
            return flow.free_at - step - now
        flow.booked_until = max(flow.booked_until, flow.free_at) + step
        return Held(timedelta(seconds=min(flow.booked_until - step - now, LONGEST_HOLD)))
