"""What waits and for how long, as /metrics tells it."""

import asyncio
import math
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from services.ingest.announcer import Announcer
from services.ingest.gauges import WHOLE_LOOK_EVERY, Gauges
from services.ingest.promoter import Promoter
from shared.broker.local import LocalBus
from shared.channel import Channel
from shared.event import EventStatus
from shared.ids import TenantId
from shared.metrics import REGISTRY
from shared.store import backlog
from shared.store.announcing import mark_announced_again
from shared.store.backlog import due_jobs, queued_events
from shared.store.database import Database
from shared.store.discovery import EVER
from shared.store.pauses import PauseKey, PauseKind, block, pause, resume
from shared.store.routing import End, finish_if_queued
from tests.factories import accept_events, claim_jobs, create_jobs, new_event, new_job, until

MINUTE = timedelta(minutes=1)


def told(name: str, **labels: str) -> float:
    """What /metrics says."""
    value = REGISTRY.get_sample_value(name, labels)
    assert value is not None
    return value


def ages() -> dict[str, float]:
    """The oldest due job of each channel, in minutes."""
    return {channel: told("waybill_oldest_due_seconds", channel=channel) // 60 for channel in Channel}


async def make_due(database: Database, scope_id: int, age: timedelta) -> None:
    """Let the scope's jobs have come due ``age`` ago."""
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET due_at = now() - $2::interval WHERE scope_id = $1", scope_id, age)


async def test_the_oldest_due_job_of_each_channel_is_found_whichever_scope_and_lane_it_is_in(
    database: Database,
) -> None:
    await create_jobs(database, [new_job(scope_id=scope) for scope in (1, 1, 2, 3)])
    await create_jobs(database, [new_job(scope_id=4, channel=Channel.INAPP)])
    for scope_id, age in ((1, 5), (2, 90), (3, -10), (4, 2)):
        await make_due(database, scope_id, age * MINUTE)
    await Gauges(database).look()
    assert ages() == {"email": 90, "inapp": 2, "push": 0}
    assert [told("waybill_due_jobs", channel=channel) for channel in ("email", "inapp", "push")] == [3, 1, 0]


async def test_a_job_in_a_claim_still_waits_and_a_finished_one_does_not(database: Database) -> None:
    await create_jobs(database, [new_job()])
    await make_due(database, 1, 3 * MINUTE)
    assert len(await claim_jobs(database)) == 1
    async with database.hot() as pg:
        claimed = await due_jobs(pg, Channel.EMAIL, EVER)
        await pg.execute("UPDATE outgoing SET status = 'SENT', finished_at = now()")
        finished = await due_jobs(pg, Channel.EMAIL, EVER)
    assert (claimed.count, claimed.oldest // MINUTE) == (1, 3)
    assert (finished.count, finished.oldest) == (0, timedelta(0))


async def test_the_oldest_queued_event_ages_until_it_is_routed_however_often_it_is_announced(
    database: Database,
) -> None:
    gauges, now = Gauges(database), datetime.now(UTC)
    old, *_ = await accept_events(database, [new_event() for _ in range(3)], now - 10 * MINUTE)
    await accept_events(database, [new_event()], now)
    async with database.hot() as pg:
        await mark_announced_again(pg, [old])
    await gauges.look()
    assert told("waybill_oldest_queued_seconds") // 60 == 10
    assert told("waybill_queued_events") == 4
    async with database.hot() as pg:
        rows = await pg.fetch("SELECT event_id FROM events")
        await finish_if_queued(pg, [End(row["event_id"], EventStatus.ROUTED) for row in rows])
    await gauges.look()
    assert (told("waybill_oldest_queued_seconds"), told("waybill_queued_events")) == (0, 0)


async def test_a_scheduled_event_waits_only_since_its_time_came(database: Database) -> None:
    send_at = datetime.now(UTC) - 2 * MINUTE
    await accept_events(database, [new_event(send_at=send_at)], send_at - timedelta(days=30))
    async with database.hot() as pg:
        assert (await queued_events(pg, EVER)).count == 0
        await Promoter(database, Announcer(LocalBus(), database)).promote()
        assert (await queued_events(pg, EVER)).oldest // MINUTE == 2


async def test_counting_stops_where_more_would_say_no_more(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: getattr(backlog, name).replace("10001", "5") for name in ("DUE_JOBS", "QUEUED_EVENTS")}
    for name, statement in few.items():
        monkeypatch.setattr(backlog, name, statement)
    await create_jobs(database, [new_job(scope_id=1 + n % 2) for n in range(8)])
    await accept_events(database, [new_event() for _ in range(8)])
    async with database.hot() as pg:
        assert (await due_jobs(pg, Channel.EMAIL, EVER)).count == (await queued_events(pg, EVER)).count == 5


async def test_a_look_goes_back_only_as_far_as_the_last_one_did_but_for_one_a_minute(database: Database) -> None:
    gauges = Gauges(database)
    await create_jobs(database, [new_job(scope_id=scope) for scope in (1, 2)])
    await make_due(database, 1, 20 * MINUTE)
    await make_due(database, 2, timedelta(0))
    looks = []
    for _ in range(WHOLE_LOOK_EVERY + 1):
        await gauges.look()
        looks.append(ages()["email"])
        # As if its transaction had taken an hour to commit.
        await make_due(database, 2, 60 * MINUTE)
    assert looks == [20, 20, 20, 20, 60]


async def test_an_operators_pause_is_logged_when_it_stands_is_changed_and_has_ended(database: Database) -> None:
    gauges, key = Gauges(database), PauseKey(PauseKind.EVENT_TYPE, "email", TenantId(1), "reminder")
    with capture_logs() as lines:
        async with database.hot() as pg:
            await pause(pg, key, "wrong wording", None, "ada@ops1")
            await block(pg, PauseKey(PauseKind.RELAY, "email", name="mx"), "535", "535", MINUTE, MINUTE)
            for _ in range(2):
                await gauges.look()
            await pause(pg, key, "still wrong", None, "eve@ops2")
            await gauges.look()
            await resume(pg, key)
            await gauges.look()
    assert [(line["event"], line["event_type"], line["by"], line["reason"]) for line in lines] == [
        ("pause.stands", "reminder", "ada@ops1", "wrong wording"),
        ("pause.stands", "reminder", "eve@ops2", "still wrong"),
        ("pause.ended", "reminder", "eve@ops2", "still wrong"),
    ]


async def test_pauses_are_counted_by_their_kind_while_they_stand(database: Database) -> None:
    gauges = Gauges(database)
    channel = PauseKey(PauseKind.CHANNEL, "email")
    async with database.hot() as pg:
        await pause(pg, channel, "by hand", None)
        await pause(pg, PauseKey(PauseKind.TENANT, "", TenantId(1)), "over", datetime.now(UTC) - MINUTE)
        for name in ("a", "b"):
            await block(pg, PauseKey(PauseKind.RELAY, "email", name=name), "535", "535", MINUTE, MINUTE)
        await gauges.look()
        counted = {kind: told("waybill_pauses", kind=kind) for kind in PauseKind}
        assert counted == {"channel": 1, "tenant": 0, "event_type": 0, "relay": 2, "sender": 0}
        await resume(pg, channel)
    await gauges.look()
    assert told("waybill_pauses", kind="channel") == 0


async def test_nothing_is_said_while_postgres_is_away() -> None:
    database, stop = Database("postgresql://nobody@127.0.0.1:1/nothing"), asyncio.Event()
    running = asyncio.create_task(Gauges(database).run(stop))
    await until(lambda: math.isnan(told("waybill_oldest_due_seconds", channel="email")))
    assert math.isnan(told("waybill_oldest_queued_seconds"))
    assert math.isnan(told("waybill_changes_waiting_seconds"))
    stop.set()
    await running
    await database.close()
