"""Whose turn it is: the lanes known to have due jobs, and how many of each the next claim may take."""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from shared.channel import Channel
from shared.delivery.wake import Doorbell
from shared.ids import ScopeId
from shared.job import Lane
from shared.store.claim import Head, Share, discover
from shared.store.database import Database

DISCOVERY_SECONDS = 1.0
DISCOVERY_COST_FACTOR = 20
"""A discovery may cost a twentieth of the time at most, however many scopes there are."""
FRESH_LANES = (Lane.TRANSACTIONAL, Lane.BULK)
"""The lanes new jobs are in: a wake speaks of new jobs only."""

NOTHING: Mapping[ScopeId, int] = MappingProxyType({})


def any_number_of(_scope_id: ScopeId) -> int:
    """No limit to how many jobs of the scope may be claimed."""
    return sys.maxsize


Key = tuple[ScopeId, Lane]


class Rounds:
    """The lanes with due jobs as this process knows them: from wakes at once, from discovery every second."""

    def __init__(self, channel: Channel, slots: int = 500) -> None:
        self._channel = channel
        self._slots = slots
        self._heads: dict[Key, Head] = {}
        self._next_discovery = 0.0
        self._turn = 0

    def __bool__(self) -> bool:
        """Whether there is a lane to take from."""
        return bool(self._heads)

    @property
    def has_waiting(self) -> bool:
        """Whether a lane is known that waits: for a slot, or for a pause to end."""
        return bool(self._heads)

    def _add_woken(self, scope_ids: Iterable[ScopeId]) -> None:
        for scope_id in scope_ids:
            for lane in FRESH_LANES:
                self._heads.setdefault((scope_id, lane), Head(scope_id, lane, None))

    async def look(self, bell: Doorbell, database: Database) -> None:
        """Take in what the bell says, and ask the table where due jobs are when it is time to."""
        self._add_woken(bell.take())
        if bell.take_anywhere():
            self._next_discovery = 0.0
        await self._discover_if_due(database)

    async def _discover_if_due(self, database: Database) -> None:
        began = time.monotonic()
        if began < self._next_discovery:
            return
        async with database.hot() as pg:
            heads = await discover(pg, self._channel)
        ended = time.monotonic()
        self._next_discovery = ended + max(DISCOVERY_SECONDS, DISCOVERY_COST_FACTOR * (ended - began))
        self._heads |= {(head.scope_id, head.lane): head for head in heads}

    def shares(
        self,
        free: int,
        busy: Mapping[ScopeId, int] = MappingProxyType({}),  # noqa: ARG002 - the next step
        most_of: Callable[[ScopeId], int] = lambda _: 1_000_000,
    ) -> list[Share]:
        """Equal parts of ``free`` slots, lower lanes first, beginning with another scope each time."""
        self._turn += 1
        heads = sorted((head for head in self._heads.values() if most_of(head.scope_id)), key=lambda head: head.lane)
        start = self._turn % len(heads) if len(heads) > free else 0
        turn = (heads[start:] + heads[:start])[:free]
        part, left = divmod(free, len(turn)) if turn else (0, 0)
        return [Share(head, part + (place < left)) for place, head in enumerate(turn)]

    def note_taken(self, shares: Sequence[Share], taken: Iterable[Key]) -> None:
        """Forget the lanes that gave less than their share: they are empty until the next wake or discovery."""
        counts: dict[Key, int] = {}
        for key in taken:
            counts[key] = counts.get(key, 0) + 1
        for share in shares:
            key = (share.head.scope_id, share.head.lane)
            if counts.get(key, 0) < share.quota:
                self._heads.pop(key, None)
