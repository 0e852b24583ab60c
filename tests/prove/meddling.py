"""Everybody else who touches jobs while workers have them: who creates them and who enters them in the inbox."""

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta

from shared.channel import Channel
from shared.ids import EventId, new_event_id
from shared.job import Lane
from shared.retry import RetryPolicy
from shared.store.claim import Share
from shared.store.database import Database
from shared.store.inbox_delivery import enter_due, enter_siblings
from shared.store.outgoing import NewJob
from tests.factories import create_jobs, new_job
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


class Feeder:
    """Keeps a backlog of events, each with a mail, half of them with an inbox entry."""

    def __init__(self, database: Database, rng: random.Random) -> None:
        self.event_ids: list[EventId] = []
        self._database = database
        self._rng = rng

    async def feed(self, stop: asyncio.Event) -> None:
        """Create events whenever few jobs are left, until ``stop`` is set."""
        while not stop.is_set():
            async with self._database.hot() as pg:
                open_count = await pg.fetchval("SELECT count(*) FROM outgoing WHERE status = 'PENDING'")
            if open_count < BACKLOG:
                jobs = [job for _ in range(EVENTS_AT_ONCE) for job in self._event()]
                await create_jobs(self._database, jobs)
                self.event_ids += {job.event_id: None for job in jobs}
            await asyncio.sleep(0.02)

    def _event(self) -> list[NewJob]:
        dice = self._rng.random
        event_id, scope_id, lane = new_event_id(), self._rng.choice(SCOPES), self._rng.choice(LANES)
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


async def enter_some_early(database: Database, feeder: Feeder, rng: random.Random, stop: asyncio.Event) -> None:
    """What push does before it rings, for some of the newest events and again for some old ones."""
    while not stop.is_set():
        newest = feeder.event_ids[-EVENTS_AT_ONCE:]
        some = rng.sample(newest, min(5, len(newest))) + rng.sample(feeder.event_ids, min(2, len(feeder.event_ids)))
        async with database.hot() as pg:
            await enter_siblings(pg, some)
        await asyncio.sleep(0.02)
