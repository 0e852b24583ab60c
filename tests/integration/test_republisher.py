"""The floor under lost announcements: swept, counted only when confirmed, further and further apart."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from services.ingest.announcer import Announcer
from services.ingest.promoter import Promoter
from services.ingest.republisher import Republisher
from shared.broker.local import LocalBus
from shared.errors import PublishUnconfirmed
from shared.ids import EventId
from shared.store.announcing import mark_announced_if_queued
from shared.store.database import Database
from tests.factories import accept_events, new_event, until
from tests.fakes.ledger import ledger_mistakes

EVERY = timedelta(seconds=60)
AFTER = timedelta(minutes=2)
START = datetime(2026, 12, 1, tzinfo=UTC)


class RecordingBus(LocalBus):
    """A bus that keeps what was announced, confirms or not, and may be down."""

    def __init__(self) -> None:
        super().__init__()
        self.announced: list[EventId] = []
        self.confirms = True
        self.up = True
        self.remembers = False

    @property
    def connected(self) -> bool:
        """Whether it is up."""
        return self.up

    @property
    def outlives_process(self) -> bool:
        """Whether it remembers."""
        return self.remembers

    async def announce(self, event_ids: Sequence[EventId], *, again: bool = False) -> None:
        """Keep the ids; PublishUnconfirmed unless it confirms."""
        assert again, "whatever the republisher announces was announced before"
        self.announced.extend(event_ids)
        if not self.confirms:
            raise PublishUnconfirmed("no confirmation")


@pytest.fixture
def bus() -> RecordingBus:
    return RecordingBus()


@pytest.fixture
def republisher(database: Database, bus: RecordingBus) -> Republisher:
    return Republisher(database, bus, EVERY, AFTER)


async def accept(database: Database, count: int = 1, send_at: datetime | None = None) -> list[EventId]:
    """Events accepted at START and never announced."""
    return await accept_events(database, [new_event(scope_id=1 + n % 3, send_at=send_at) for n in range(count)], START)


async def test_an_event_is_announced_again_only_when_its_time_has_come(
    database: Database, bus: RecordingBus, republisher: Republisher
) -> None:
    (event_id,) = await accept(database)
    assert await republisher.sweep(START + AFTER - timedelta(seconds=1)) == 0
    assert await republisher.sweep(START + AFTER) == 1
    assert bus.announced == [event_id]


async def test_the_gaps_grow_to_two_four_eight_sixteen_and_thirty_minutes(
    database: Database, bus: RecordingBus, republisher: Republisher
) -> None:
    await accept(database)
    told_at = []
    for minute in range(150):
        if await republisher.sweep(START + timedelta(minutes=minute)):
            told_at.append(minute)  # noqa: PERF401 - the loop reads better
    assert told_at == [2, 6, 14, 30, 60, 90, 120]


async def test_what_was_not_confirmed_is_not_counted(
    database: Database, bus: RecordingBus, republisher: Republisher
) -> None:
    (event_id,) = await accept(database)
    bus.confirms = False
    for _ in range(3):
        with pytest.raises(PublishUnconfirmed):
            await republisher.sweep(START + AFTER)
    bus.confirms = True
    assert await republisher.sweep(START + AFTER) == 1
    async with database.hot() as pg:
        assert await pg.fetchval("SELECT announce_count FROM events WHERE event_id = $1", event_id) == 1


async def test_nothing_is_tried_while_the_broker_is_known_to_be_down(
    database: Database, bus: RecordingBus, republisher: Republisher
) -> None:
    await accept(database)
    bus.up = False
    assert await republisher.sweep(START + AFTER) == 0
    assert bus.announced == []


async def test_two_replicas_share_a_sweep(database: Database, bus: RecordingBus) -> None:
    held, free = await accept(database, 2)
    other = Republisher(database, bus, EVERY, AFTER)
    async with database.hot() as pg, pg.transaction():
        await pg.execute("SELECT FROM events WHERE event_id = $1 FOR UPDATE", held)
        assert await other.sweep(START + AFTER) == 1
    assert bus.announced == [free]


async def test_a_sweep_takes_a_large_backlog_in_portions(
    database: Database, bus: RecordingBus, republisher: Republisher
) -> None:
    event_ids = await accept(database, 450)
    assert await republisher.sweep(START + AFTER) == 450
    assert sorted(bus.announced) == sorted(event_ids)
    assert await republisher.sweep(START + AFTER) == 0


@pytest.mark.parametrize("remembers", [False, True])
async def test_a_process_that_starts_on_a_bus_that_forgets_announces_all_that_is_queued_at_once(
    database: Database, bus: RecordingBus, republisher: Republisher, remembers: bool
) -> None:
    now = datetime.now(UTC)
    long_ago = await accept_events(database, [new_event()], now - timedelta(hours=1))
    just_now = await accept_events(database, [new_event() for _ in range(450)], now - timedelta(seconds=1))
    bus.remembers = remembers
    stop = asyncio.Event()
    running = asyncio.create_task(republisher.run(stop))
    await until(lambda: len(bus.announced) == (1 if remembers else 451))
    stop.set()
    await running
    assert sorted(bus.announced) == sorted(long_ago if remembers else long_ago + just_now)
    # The next sweep is like any other.
    assert await republisher.sweep() == 0


@pytest.mark.parametrize(("status", "reason"), [("FAILED", "routing_failed"), ("CANCELLED", "")])
async def test_an_event_that_is_over_is_never_announced_again(
    database: Database, republisher: Republisher, status: str, reason: str
) -> None:
    await accept(database)
    async with database.hot() as pg:
        await pg.execute("UPDATE events SET status = $1, reason = $2", status, reason)
    assert await republisher.sweep(START + timedelta(days=1)) == 0


async def test_a_first_announcement_confirmed_late_starts_the_wait_anew(
    database: Database, republisher: Republisher
) -> None:
    (event_id,) = await accept(database)
    async with database.hot() as pg:
        await mark_announced_if_queued(pg, [event_id], START + timedelta(minutes=1))
        assert await pg.fetchval("SELECT announce_count FROM events") == 0
    assert await republisher.sweep(START + AFTER) == 0


async def test_scheduled_events_are_promoted_when_due_and_the_ledger_moves_with_them(
    database: Database, bus: RecordingBus, republisher: Republisher
) -> None:
    send_at = START + timedelta(hours=3)
    await accept(database, 5, send_at)
    promoter = Promoter(database, Announcer(bus, database))
    assert await promoter.promote(send_at - timedelta(seconds=1)) == 0
    assert await promoter.promote(send_at) == 5
    assert await promoter.promote(send_at) == 0
    assert await ledger_mistakes(database) == []
    assert await republisher.sweep(send_at + AFTER - timedelta(seconds=1)) == 0
    assert await republisher.sweep(send_at + AFTER) == 5
