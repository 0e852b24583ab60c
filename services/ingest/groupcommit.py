"""One commit for many requests: what arrives while Postgres is busy is committed together."""

import asyncio
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import asyncpg

from shared.errors import StoreConflict, StoreUnavailable
from shared.ids import ScopeId
from shared.logs import get_logger
from shared.store.database import Database
from shared.store.events import NewEvent, StoredEvent, insert_if_new

log = get_logger()

FLUSHES_AT_ONCE = 2
"""With one the commit's wait is idle time; more than two only make the groups smaller."""
MOST_IN_A_FLUSH = 500


@dataclass(frozen=True, slots=True)
class _Waiting:
    event: NewEvent
    inserted: "asyncio.Future[StoredEvent | None]"


class GroupCommit:
    """Inserts events in groups by natural batching.

    While fewer than two flushes are in flight an event is flushed at once, so that a lone client waits for
    nothing; what arrives meanwhile goes with the next flush.
    """

    def __init__(self, database: Database, within: timedelta) -> None:
        """``within``: how long an event may wait, in line and for Postgres together."""
        self._database = database
        self._within = within
        self._line: deque[_Waiting] = deque()
        self._flushes: set[asyncio.Task[None]] = set()

    async def insert_if_new(self, event: NewEvent) -> StoredEvent | None:
        """``event``, committed; None when its idempotency key is taken, be it by an earlier event of the same group.

        Raises StoreUnavailable: then perhaps it was committed all the same.
        """
        waiting = _Waiting(event, asyncio.get_running_loop().create_future())
        self._line.append(waiting)
        self._flush_if_free()
        try:
            async with asyncio.timeout(self._within.total_seconds()):
                return await waiting.inserted
        except TimeoutError as exc:
            raise StoreUnavailable("Postgres did not commit in time") from exc

    def _flush_if_free(self) -> None:
        while self._line and len(self._flushes) < FLUSHES_AT_ONCE:
            group = self._take_group()
            flush = asyncio.create_task(self._flush(group))
            self._flushes.add(flush)
            flush.add_done_callback(self._flushed)

    def _flushed(self, flush: "asyncio.Task[None]") -> None:
        self._flushes.discard(flush)
        self._flush_if_free()

    def _take_group(self) -> list[_Waiting]:
        """The next in line, one event a key: whoever repeats a key is told at once that it is taken, and looks it up.

        They are told after the flush of the first, whose row the look-up then finds or waits for.
        """
        group: dict[tuple[ScopeId, str], _Waiting] = {}
        while self._line and len(group) < MOST_IN_A_FLUSH:
            waiting = self._line.popleft()
            if waiting.inserted.done():
                # Its client has given up: nothing was promised.
                continue
            first = group.setdefault((waiting.event.scope_id, waiting.event.idempotency_key), waiting)
            if first is not waiting:
                first.inserted.add_done_callback(partial(_follow, later=waiting.inserted))
        return list(group.values())

    async def _flush(self, group: list[_Waiting]) -> None:
        try:
            await self._insert(group)
        except (asyncpg.PostgresError, StoreConflict) as exc:
            log.warning("ingest.flush_failed", events=len(group), error=type(exc).__name__)
            for waiting in group:
                await self._insert_alone(waiting)
        except StoreUnavailable as exc:
            for waiting in group:
                _fail(waiting.inserted, exc)

    async def _insert(self, group: list[_Waiting]) -> None:
        async with self._database.hot(self._within) as pg:
            inserted = await insert_if_new(pg, [waiting.event for waiting in group])
        for waiting in group:
            if not waiting.inserted.done():
                waiting.inserted.set_result(inserted.get(waiting.event.event_id))

    async def _insert_alone(self, waiting: _Waiting) -> None:
        """One row spoils a statement: alone, only its own request fails."""
        try:
            await self._insert([waiting])
        except (asyncpg.PostgresError, StoreUnavailable) as exc:
            _fail(waiting.inserted, exc)


def _fail(future: "asyncio.Future[StoredEvent | None]", exc: Exception) -> None:
    if not future.done():
        future.set_exception(exc)


def _follow(first: "asyncio.Future[StoredEvent | None]", later: "asyncio.Future[StoredEvent | None]") -> None:
    """``later`` has the key of ``first``: once that is decided, the key is taken, or nobody knows."""
    if later.done():
        return
    if first.cancelled() or first.exception() is not None:
        later.set_exception(StoreUnavailable("the event with the same key could not be committed"))
    else:
        later.set_result(None)
