"""Everybody else who touches jobs meanwhile: who creates, enters, cancels, replays, expires and bounces them."""

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta

from shared.channel import Channel
from shared.event import EventStatus
from shared.ids import EventId, JobId, ScopeId
from shared.job import JobReason, Lane
from shared.retry import RetryPolicy
from shared.store.cancel import cancel_events
from shared.store.claim import Share
from shared.store.database import Database, HotConnection
from shared.store.events import NewEvent
from shared.store.expiry import expire_locked, lock_expired
from shared.store.inbox_delivery import enter_due, enter_siblings
from shared.store.job_lists import JobKey
from shared.store.outgoing import NewJob
from shared.store.receipts import NewReceipt, ReceiptSource, apply_ripe, keep_if_new
from shared.store.replay import ReplayOptions, replay_if_failed
from shared.store.routing import End, finish_if_queued
from tests.factories import accept_events, create_jobs, new_event, new_job
from tests.prove.troubled import POISON

SCOPES = (1, 2, 3)
LANES = (Lane.TRANSACTIONAL, Lane.BULK)
POLICY = RetryPolicy(attempts=3, backoff=timedelta(milliseconds=20))
BACKLOG = 300
EVENTS_AT_ONCE = 40
POISONED = 0.01
SHORT_LIVED = 0.06
HOLDING = 0.2
WITH_ENTRY = 0.5
REPLAYS_AT_ONCE = 6
RECEIPTS_AT_ONCE = 100
FAILED = """
SELECT job_id, channel, reason
FROM outgoing
WHERE scope_id = $1 AND status = 'FAILED'
ORDER BY finished_at DESC
LIMIT $2
"""


class Feeder:
    """Keeps a backlog of events, each with a mail, half of them with an inbox entry; ``scopes`` says whose they are."""

    def __init__(self, database: Database, rng: random.Random) -> None:
        self.event_ids: list[EventId] = []
        self.scopes: dict[EventId, ScopeId] = {}
        self._database = database
        self._rng = rng

    async def feed(self, stop: asyncio.Event) -> None:
        """Create events whenever few jobs are left, until ``stop`` is set."""
        while not stop.is_set():
            async with self._database.hot() as pg:
                open_count = await pg.fetchval("SELECT count(*) FROM outgoing WHERE status = 'PENDING'")
            if open_count < BACKLOG:
                await self._feed([new_event(scope_id=self._rng.choice(SCOPES)) for _ in range(EVENTS_AT_ONCE)])
            await asyncio.sleep(0.02)

    async def _feed(self, events: Sequence[NewEvent]) -> None:
        await accept_events(self._database, events)
        await create_jobs(self._database, [job for event in events for job in self._jobs(event)])
        async with self._database.hot() as pg:
            await finish_if_queued(pg, [End(event.event_id, EventStatus.ROUTED) for event in events])
        self.event_ids += [event.event_id for event in events]
        self.scopes |= {event.event_id: event.scope_id for event in events}

    def _jobs(self, event: NewEvent) -> list[NewJob]:
        dice = self._rng.random
        event_id, scope_id, lane = event.event_id, event.scope_id, self._rng.choice(LANES)
        expires_in = timedelta(milliseconds=300) if dice() < SHORT_LIVED else timedelta(hours=1)
        mail = new_job(
            event_id=event_id,
            scope_id=scope_id,
            lane=lane,
            policy=POLICY,
            on_unknown="hold" if dice() < HOLDING else "resend",
            subject=POISON if dice() < POISONED else "Hello",
            expires_in=expires_in,
        )
        if dice() >= WITH_ENTRY:
            return [mail]
        recipient_id = self._rng.choice("abc")
        entry = new_job(
            event_id=event_id, scope_id=scope_id, lane=lane, channel=Channel.INAPP, recipient_id=recipient_id
        )
        return [mail, entry]


async def enter_entries(database: Database, shares: Sequence[Share], stop: asyncio.Event) -> None:
    """What the in-app service does, until ``stop`` is set."""
    while not stop.is_set():
        async with database.hot() as pg:
            await enter_due(pg, shares)
        await asyncio.sleep(0.01)


class Meddler:
    """Picks events, most of them new and some old, and does to them what others than workers do."""

    def __init__(self, database: Database, feeder: Feeder, rng: random.Random) -> None:
        self._database = database
        self._feeder = feeder
        self._rng = rng

    async def meddle(self, stop: asyncio.Event) -> None:
        """Enter, cancel, replay, expire and bounce in turns, until ``stop`` is set."""
        while not stop.is_set():
            async with self._database.hot() as pg, pg.transaction():
                await self._rng.choice((self._enter, self._cancel, self._replay, self._expire, self._bounce))(pg)
            await asyncio.sleep(0.01)

    def _some(self, count: int) -> list[EventId]:
        known = self._feeder.event_ids
        newest = known[-4 * EVENTS_AT_ONCE :]
        return [self._rng.choice(self._rng.choice((newest, newest, known))) for _ in range(count) if known]

    async def _enter(self, pg: HotConnection) -> None:
        """What push does before it rings."""
        await enter_siblings(pg, self._some(5))

    async def _cancel(self, pg: HotConnection) -> None:
        scope_id = ScopeId(self._rng.choice(SCOPES))
        await cancel_events(pg, scope_id, [one for one in self._some(8) if self._feeder.scopes[one] == scope_id])

    async def _replay(self, pg: HotConnection) -> None:
        scope_id = ScopeId(self._rng.choice(SCOPES))
        failed = await pg.fetch(FAILED, scope_id, REPLAYS_AT_ONCE)
        keys = [JobKey(Channel(row["channel"]), JobId(row["job_id"]), JobReason(row["reason"])) for row in failed]
        await replay_if_failed(pg, scope_id, keys, ReplayOptions())

    async def _expire(self, pg: HotConnection) -> None:
        channel = self._rng.choice((Channel.EMAIL, Channel.INAPP))
        await expire_locked(pg, channel, await lock_expired(pg, channel, EVENTS_AT_ONCE))

    async def _bounce(self, pg: HotConnection) -> None:
        for event_id in self._some(2):
            report = f"report-{self._rng.getrandbits(64)}"
            await keep_if_new(
                pg,
                NewReceipt(
                    event_id,
                    ReceiptSource.WEBHOOK,
                    report,
                    "bob@example.com",
                    "permanent-message",
                    code=None,
                    detail="",
                ),
            )
        await apply_ripe(pg, RECEIPTS_AT_ONCE)
