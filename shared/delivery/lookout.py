"""Where due jobs are, as the table tells it: what came due lately every second, everything once a minute."""

import asyncio
import random
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice

from shared.channel import Channel
from shared.errors import StoreUnavailable
from shared.ids import ScopeId
from shared.logs import get_logger
from shared.store.claim import Head, LaneKey
from shared.store.database import Database, HotConnection
from shared.store.discovery import EVER, HEADS_LIMIT, LONGEST, RECENT, discover, revisit

log = get_logger()

RECENT_SECONDS = 1.0
EVERYTHING_SECONDS = 60.0
PATIENCE_SECONDS = 0.2
NOTHING = timedelta()
COST_FACTOR = 20
"""Looking may cost a twentieth of the time at most, however many scopes there are."""


class Lookout:
    """Finds the heads of lanes with due jobs, and remembers where each lane's oldest job stands.

    A lane is looked at from its own oldest job on, be it in flight or held back by a pause: an old one, under a
    snapshot that keeps what was finished since, makes no other lane's look dear. Jobs older than five minutes that
    nobody knows of are found by the look at everything: at start, after an outage, and once a minute.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._known: dict[LaneKey, Head] = {}
        self._recent = _Scan(channel, RECENT, RECENT_SECONDS)
        self._everything = _Scan(channel, EVER, EVERYTHING_SECONDS)
        self._looking: asyncio.Task[list[Head]] | None = None

    def hurry(self) -> None:
        """Look at what came due lately as soon as asked: wakes may have been missed."""
        self._recent.next_at = 0.0

    def low_of(self, key: LaneKey) -> datetime | None:
        """Where a claim of the lane is to begin, None when nothing is known of what is due in it."""
        head = self._known.get(key)
        return head.low if head else None

    @property
    def next_look_seconds(self) -> float:
        """In how many seconds it is time to look at what came due lately."""
        return max(self._recent.next_at - time.monotonic(), 0.0)

    async def find(self, database: Database) -> list[Head] | None:
        """Heads of lanes with due jobs, some of them twice; None when it is not yet time to look again."""
        if not self._recent.is_due:
            return None
        try:
            found = await self._find_recent(database)
        except StoreUnavailable:
            # Jobs may grow old while nobody can look.
            self._everything.next_at = 0.0
            raise
        return found + await self._find_everything(database)

    async def _find_recent(self, database: Database) -> list[Head]:
        async with database.hot() as pg:
            asked = list(islice(self._known.values(), HEADS_LIMIT))
            again = await revisit(pg, self._channel, asked)
            for head in asked:
                del self._known[head.key]
            self._remember(again.heads)
            recent = await self._recent.look(pg, again.took)
        # Who is known to have older jobs keeps them.
        self._remember(head for head in recent if head.key not in self._known)
        return again.heads + recent

    async def _find_everything(self, database: Database) -> list[Head]:
        if self._everything.is_due and self._looking is None:
            self._looking = asyncio.create_task(self._look_at_everything(database))
            # Mostly it is done at once. Behind what an old snapshot keeps it may take long: claims do not wait for it.
            await asyncio.wait({self._looking}, timeout=PATIENCE_SECONDS)
        if self._looking is None or not self._looking.done():
            return []
        found, self._looking = self._looking.result(), None
        self._remember(found)
        return found

    async def _look_at_everything(self, database: Database) -> list[Head]:
        try:
            async with database.hot(LONGEST) as pg:
                return await self._everything.look(pg)
        except StoreUnavailable as exc:
            log.warning("delivery.look_failed", channel=self._channel, error=str(exc))
            return []

    def _remember(self, heads: Iterable[Head]) -> None:
        for head in heads:
            self._known[head.key] = head


class _Scan:
    """One kind of look, in pieces of HEADS_LIMIT heads that go round over the scopes."""

    def __init__(self, channel: Channel, since: timedelta, every: float) -> None:
        self.next_at = 0.0
        self._channel = channel
        self._since = since
        self._every = every
        self._after = ScopeId(0)

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next piece."""
        return time.monotonic() >= self.next_at

    async def look(self, pg: HotConnection, already_took: timedelta = NOTHING) -> list[Head]:
        """The next piece; what the caller's part of the look ``already_took`` counts towards the cost."""
        self._rest(self._every)  # should it fail
        look = await discover(pg, self._channel, self._after, self._since)
        is_cut = len(look.heads) == HEADS_LIMIT
        self._after = self._next_start(look.heads) if is_cut else ScopeId(0)
        cost = (already_took + look.took).total_seconds()
        self._rest(max(RECENT_SECONDS if is_cut else self._every, COST_FACTOR * cost))
        return look.heads

    def _rest(self, seconds: float) -> None:
        self.next_at = time.monotonic() + seconds

    def _next_start(self, heads: Sequence[Head]) -> ScopeId:
        # The first piece is the same for all processes; each goes on from another scope of it. A piece may end
        # between two lanes of a scope, so that the next begins with that scope again.
        last = heads[-1] if self._after else random.choice(heads)  # noqa: S311 - spreads load, guards nothing
        return ScopeId(last.scope_id - 1)
