"""The bus of a single process: nothing leaves memory, and what is lost with it is found in Postgres."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import chain

from shared.broker.bus import CONCURRENT_MESSAGES, Consume, Rest, Woken, is_outage
from shared.broker.messages import Announcement, in_messages
from shared.channel import Channel
from shared.errors import PublishUnconfirmed
from shared.ids import EventId, ScopeId
from shared.lifecycle import failure_of, stopped_within
from shared.logs import get_logger
from shared.metrics import announcements, wakes

log = get_logger()

MAX_WAITING = 10_000
"""Announcements kept in memory; more are refused and stay QUEUED in Postgres."""


class LocalBus:
    """Announcements in a bounded queue, wakes as calls that are gathered for one turn of the loop."""

    def __init__(self, max_waiting: int = MAX_WAITING) -> None:
        self._waiting: asyncio.Queue[Announcement | None] = asyncio.Queue()
        self._max_waiting = max_waiting
        self._consume: Consume | None = None
        self._woken: dict[Channel, list[Woken]] = defaultdict(list)
        self._to_wake: dict[Channel, set[ScopeId]] = {}
        self._back: list[Callable[[], None]] = []
        self._rest = Rest()

    @property
    def connected(self) -> bool:
        """Always: there is nothing in between."""
        return True

    @property
    def outlives_process(self) -> bool:
        """Never: what was waiting is gone with the memory it waited in."""
        return False

    async def announce(self, event_ids: Sequence[EventId], *, again: bool = False) -> None:
        """Queue the announcement; PublishUnconfirmed when too many wait."""
        for ids in in_messages(event_ids):
            if self._waiting.qsize() >= self._max_waiting:
                announcements.labels("unconfirmed").inc()
                raise PublishUnconfirmed(f"{self._max_waiting} announcements are waiting already")
            self._waiting.put_nowait(Announcement(ids, again=again))
            announcements.labels("confirmed").inc()

    async def wake(self, channel: Channel, scope_ids: Collection[ScopeId]) -> None:
        """Call the listeners of ``channel`` in the next turn of the loop, once for all wakes of this turn."""
        if not self._to_wake:
            asyncio.get_running_loop().call_soon(self._call_woken)
        self._to_wake.setdefault(channel, set()).update(scope_ids)

    def on_announced(self, consume: Consume) -> None:
        """Let ``consume`` have every announcement."""
        self._consume = consume

    def on_wake(self, channel: Channel, woken: Woken) -> None:
        """Call ``woken`` with the scopes of each wake."""
        self._woken[channel].append(woken)

    def on_back(self, back: Callable[[], None]) -> None:
        """Call ``back`` once the bus runs; it is never down after that."""
        self._back.append(back)

    async def run(self, stop: asyncio.Event) -> None:
        """Hand out announcements until ``stop``; those still waiting then are left to the republisher."""
        for back in self._back:
            back()
        for woken in chain.from_iterable(self._woken.values()):
            woken(frozenset())
        if self._consume is None:
            await stop.wait()
            return
        async with asyncio.TaskGroup() as workers:
            for _ in range(CONCURRENT_MESSAGES):
                workers.create_task(self._work(self._consume, stop))
            await stop.wait()
            self._end_waiting()

    async def close(self) -> None:
        """Nothing: there is nobody to hang up on."""

    async def _work(self, consume: Consume, stop: asyncio.Event) -> None:
        while (announcement := await self._waiting.get()) is not None:
            failure = await failure_of(consume(announcement))
            if failure is None:
                self._rest.over()
                continue
            pause = self._rest.seconds(failure)
            if is_outage(failure):
                log.debug("announcement.waits", events=len(announcement.event_ids), again_in_s=pause)
            else:
                log.warning(
                    "announcement.failed", events=len(announcement.event_ids), again_in_s=pause, exc_info=failure
                )
                announcement = replace(announcement, redelivered=True)
            await stopped_within(stop, pause)
            self._waiting.put_nowait(announcement)

    def _end_waiting(self) -> None:
        while not self._waiting.empty():
            self._waiting.get_nowait()
        for _ in range(CONCURRENT_MESSAGES):
            self._waiting.put_nowait(None)

    def _call_woken(self) -> None:
        to_wake, self._to_wake = self._to_wake, {}
        for channel, scope_ids in to_wake.items():
            for woken in self._woken[channel]:
                woken(frozenset(scope_ids))
                wakes.labels(channel, "received").inc()
