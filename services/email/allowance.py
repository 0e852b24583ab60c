"""How many mails one return path may get: whoever holds one can send to it as often as they like."""

import time
from collections import Counter
from collections.abc import Hashable

MOST = 20
"""Of one name in one process. A mail of ours has one recipient; an alias behind it may have a few."""
WINDOW_SECONDS = 3600.0
MOST_NAMES = 10_000
"""Remembered at once; with more of them all begin anew."""


class Allowance:
    """Counts, for an hour at a time."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._spent: Counter[Hashable] = Counter()
        self._until = 0.0

    def spend(self, name: Hashable) -> bool:
        """Whether ``name`` may have one more; if so, that is counted."""
        if time.monotonic() > self._until or len(self._spent) >= MOST_NAMES:
            self._spent.clear()
            self._until = time.monotonic() + WINDOW_SECONDS
        if self._spent[name] >= self._most:
            return False
        self._spent[name] += 1
        return True
