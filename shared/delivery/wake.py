"""The doorbell of a claim loop: it says "look at the table" and carries no work."""

import asyncio
import random

from shared.ids import ScopeId


class Doorbell:
    """Collects the scopes that were woken, and lets one loop wait for the next reason to look.

    Ringing may come from anywhere on the loop, any number of times; rings are merged until they are taken.
    """

    def __init__(self) -> None:
        self._scopes: set[ScopeId] = set()
        self._anywhere = False
        self._changed = asyncio.Event()
        self.is_awaited = False

    def ring(self, scope_ids: frozenset[ScopeId]) -> None:
        """Jobs of ``scope_ids`` may be due; of any scope, when it is empty (rings may have been missed)."""
        self._scopes |= scope_ids
        self._anywhere |= not scope_ids
        self._changed.set()

    def nudge(self) -> None:
        """Something else changed: a slot is free, or the process is to stop."""
        self._changed.set()

    def take(self) -> frozenset[ScopeId]:
        """The scopes woken since the last call."""
        taken = frozenset(self._scopes)
        self._scopes.clear()
        return taken

    def take_anywhere(self) -> bool:
        """Whether rings may have been missed since the last call."""
        anywhere, self._anywhere = self._anywhere, False
        return anywhere

    async def wait(self, seconds: float) -> None:
        """Return at the next ring or nudge, after ``seconds`` at the latest."""
        self.is_awaited = True
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
        finally:
            self.is_awaited = False
        self._changed.clear()


def jittered(seconds: float) -> float:
    """A wait of at most ``seconds``, so that replicas do not poll in step."""
    return seconds * random.uniform(0.7, 1.0)  # noqa: S311 - spreads load, guards nothing
