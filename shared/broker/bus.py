"""The bus as the services see it; ``rabbit.py`` and ``local.py`` are the two there are.

Nothing on the bus is the only copy of anything: an announcement that is lost is found by the republisher, a
wake that is lost by the senders' timer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol, TypeAlias, TypeGuard

from shared.broker.messages import Announcement
from shared.channel import Channel
from shared.errors import StoreUnavailable
from shared.ids import EventId, ScopeId
from shared.lifecycle import pause_after

Consume: TypeAlias = Callable[[Announcement], Awaitable[None]]
Woken: TypeAlias = Callable[[frozenset[ScopeId]], None]

CONCURRENT_MESSAGES = 8
"""How many announcements one process routes at the same time."""


LONGEST_OUTAGE_REST_SECONDS = 2.0
"""Those in hand are all that is taken: what is routed next waits until they have found Postgres again."""


class Rest:
    """How long a message that failed rests before it is tried again.

    Longer while Postgres is away, because then nobody can work. Otherwise it is this message that is wrong, and a long
    rest would only keep its place from the good ones.
    """

    def __init__(self) -> None:
        self._outages = 0

    def over(self) -> None:
        """Note that a message went well."""
        self._outages = 0

    def seconds(self, failure: BaseException) -> float:
        """The rest of the message that ended in ``failure``."""
        if not is_outage(failure):
            return pause_after(1)
        self._outages += 1
        return min(pause_after(self._outages), LONGEST_OUTAGE_REST_SECONDS)


def is_outage(failure: BaseException | None) -> TypeGuard[StoreUnavailable]:
    """Whether a message failed because of Postgres, so that nothing is to be held against it."""
    return isinstance(failure, StoreUnavailable)


class Bus(Protocol):
    """One process's end of the bus. Register first, then run; a broker that is down delays nothing but messages."""

    @property
    def connected(self) -> bool:
        """Whether an announcement has a chance right now."""

    @property
    def outlives_process(self) -> bool:
        """Whether an announcement may still be under way when the process that made it is gone."""

    async def announce(self, event_ids: Sequence[EventId], *, again: bool = False) -> None:
        """Tell a router that these events are QUEUED. PublishUnconfirmed: perhaps it was told, perhaps not.

        ``again``: it was told before, and nobody has routed them.
        """

    async def wake(self, channel: Channel, scope_ids: Collection[ScopeId]) -> None:
        """Tell every sender of ``channel`` that these scopes have due jobs. Best effort: never waits, never fails."""

    def on_announced(self, consume: Consume) -> None:
        """Let ``consume`` have every announcement, several at once.

        Its return takes the message off the bus. If it raises StoreUnavailable it is called with the same again after
        a pause; after anything else the message comes again, marked as redelivered.
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
