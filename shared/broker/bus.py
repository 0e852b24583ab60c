"""The bus as the services see it; ``rabbit.py`` and ``local.py`` are the two there are.

Nothing on the bus is the only copy of anything: an announcement that is lost is found by the republisher, a
wake that is lost by the senders' timer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol, TypeAlias

from shared.broker.messages import Announcement
from shared.channel import Channel
from shared.ids import EventId, ScopeId

Consume: TypeAlias = Callable[[Announcement], Awaitable[None]]
Woken: TypeAlias = Callable[[frozenset[ScopeId]], None]

CONCURRENT_MESSAGES = 8
"""How many announcements one process routes at the same time."""


class Bus(Protocol):
    """One process's end of the bus. Register first, then run; a broker that is down delays nothing but messages."""

    @property
    def connected(self) -> bool:
        """Whether an announcement has a chance right now."""

    async def announce(self, event_ids: Sequence[EventId]) -> None:
        """Tell a router that these events are QUEUED. PublishUnconfirmed: perhaps it was told, perhaps not."""

    async def wake(self, channel: Channel, scope_ids: Collection[ScopeId]) -> None:
        """Tell every sender of ``channel`` that these scopes have due jobs. Best effort: never waits, never fails."""

    def on_announced(self, consume: Consume) -> None:
        """Let ``consume`` have every announcement, several at once.

        Its return takes the message off the bus; if it raises, the message comes again after a pause, marked
        as redelivered.
        """

    def on_wake(self, channel: Channel, woken: Woken) -> None:
        """Call ``woken`` with the scopes of each wake; an empty set: wakes may have been missed, look anywhere."""

    def on_back(self, back: Callable[[], None]) -> None:
        """Call ``back`` whenever announcing has become possible: at start and after every outage."""

    async def run(self, stop: asyncio.Event) -> None:
        """Connect, and connect again for ever; after ``stop`` take no more messages and finish those in hand.

        Announcing goes on working until ``close``.
        """

    async def close(self) -> None:
        """Send what is waiting and hang up; the last thing a process does with its bus."""
