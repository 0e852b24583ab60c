"""How many mails a second one sender hands over, so that a relay's limit is kept rather than hit."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

from shared.delivery.provider import Held

LONGEST_HOLD = 60.0
"""Seconds. Whoever would wait longer asks again by then: the cap may have been lifted meanwhile."""


class Cap:
    """Keeps each sender of this process under its own cap, with even distances between its mails."""

    def __init__(
        self,
        patience: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """``patience``: the longest that a mail waits on the spot, in seconds."""
        self._patience = patience
        self._clock = clock
        self._sleep = sleep
        self._free_at: dict[str, float] = {}

    async def turn(self, sender: str, per_second: float) -> Held | None:
        """None once a mail of ``sender`` may go. Held when the patience is over and its turn still far away."""
        now = self._clock()
        free_at = max(self._free_at.get(sender, now), now)
        wait = free_at - now
        if wait <= self._patience:
            self._free_at[sender] = free_at + 1 / per_second
            await self._sleep(wait)
            return None
        # Its slot is kept meanwhile: a job that is sent away at once has the next one claimed, and that the next, until
        # the whole backlog has been claimed in vain.
        await self._sleep(self._patience)
        return Held(timedelta(seconds=min(wait - self._patience, LONGEST_HOLD)))
