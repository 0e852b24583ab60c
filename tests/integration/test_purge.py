"""Purging: finished work only, content before events, bit by bit, and nobody is in anybody's way."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.ingest.purger import Purger
from services.ingest.settings import IngestSettings
from shared.channel import Channel
from shared.errors import SettingsError
from shared.event import EventStatus
from shared.ids import EventId, format_event_id
from shared.settings import load_settings
from shared.store.database import Database
from shared.store.events import insert_if_new
from shared.store.ledger import ledger_of_scope
from shared.tenant import Mode
from tests.factories import accept_events, create_jobs, new_event, new_job
from tests.fakes.ingest import running_ingest
from tests.fakes.kept import finished_events, make_older
from tests.fakes.ledger import ledger_mistakes
from tests.fakes.product import eventually

DAY = timedelta(days=1)
KEEP_CONTENT, KEEP_EVENTS = 30 * DAY, 90 * DAY
TABLES = ("content", "attempts", "outgoing", "events", "inbox")


def purger(database: Database, portion: int = 5000) -> Purger:
    return Purger(database, timedelta(minutes=10), KEEP_CONTENT, KEEP_EVENTS, portion)


async def purge(database: Database, portion: int = 5000) -> dict[str, int]:
    """What one sweep deleted."""
    return {table: count for table, count in (await purger(database, portion).sweep(asyncio.Event())).items() if count}


async def counts(database: Database) -> dict[str, int]:
    """How many rows each table has."""
    async with database.hot() as pg:
        return {table: await pg.fetchval(f"SELECT count(*) FROM {table}") for table in TABLES}


async def left(database: Database) -> set[EventId]:
    """The events that are still there."""
    async with database.hot() as pg:
        return {row["event_id"] for row in await pg.fetch("SELECT event_id FROM events")}


@asynccontextmanager
async def held(database: Database, table: str, event_id: EventId) -> AsyncIterator[Any]:
    """Somebody else has locked the event's rows in ``table``, and may change them."""
    async with database.hot() as pg, pg.transaction():
        await pg.execute(f"SELECT FROM {table} WHERE event_id = $1 FOR UPDATE", event_id)
        yield pg


async def test_content_and_attempts_go_first_and_what_is_younger_stays(database: Database) -> None:
    await finished_events(database, 3, KEEP_CONTENT + DAY)
    await finished_events(database, 2, KEEP_CONTENT - DAY)
    assert await counts(database) == {"content": 10, "attempts": 5, "outgoing": 10, "events": 5, "inbox": 5}
    assert await purge(database) == {"content": 6, "attempts": 3}
    assert await counts(database) == {"content": 4, "attempts": 2, "outgoing": 10, "events": 5, "inbox": 5}
    assert await purge(database) == {}


async def test_events_go_later_with_their_jobs_but_inbox_and_ledger_stay(database: Database) -> None:
    await finished_events(database, 3, KEEP_EVENTS + DAY)
    younger = await finished_events(database, 2, KEEP_EVENTS - DAY)
    assert await ledger_mistakes(database) == []
    async with database.hot() as pg:
        before = await ledger_of_scope(pg, new_event().scope_id)
    assert await purge(database) == {"content": 10, "attempts": 5, "outgoing": 6, "events": 3}
    assert await left(database) == set(younger)
    assert await counts(database) == {"content": 0, "attempts": 0, "outgoing": 4, "events": 2, "inbox": 5}
    async with database.hot() as pg:
        assert sorted(map(str, await ledger_of_scope(pg, new_event().scope_id))) == sorted(map(str, before))


async def test_receipts_go_with_the_job_they_are_of(database: Database) -> None:
    await finished_events(database, 1, KEEP_EVENTS + DAY)
    await finished_events(database, 1, KEEP_CONTENT + DAY)
    async with database.hot() as pg:
        await pg.execute(
            """
            INSERT INTO receipts (source, provider_id, address, scope_id, job_id, kind, cause)
            SELECT 'listener', job_id::text, 'bob@example.com', scope_id, job_id, 'bounce', 'transient'
            FROM outgoing WHERE channel = 'email'
            """
        )
    assert (await purge(database))["receipts"] == 1


async def test_an_event_with_an_unfinished_job_is_never_touched_however_old(database: Database) -> None:
    waiting = await finished_events(database, 2, 10 * KEEP_EVENTS, email_waits=True)
    assert await purge(database) == {"content": 2, "attempts": 2}, "of the jobs that are finished"
    assert await left(database) == set(waiting)
    async with database.hot() as pg:
        kept = await pg.fetch("SELECT channel, status FROM outgoing ORDER BY channel, job_id")
        bodies = await pg.fetchval("SELECT count(*) FROM content JOIN outgoing USING (job_id) WHERE status = 'PENDING'")
    assert [tuple(row) for row in kept] == [("email", "PENDING")] * 2 + [("inapp", "SENT")] * 2
    assert bodies == 2


async def test_an_event_whose_last_job_finished_lately_is_kept_whole(database: Database) -> None:
    (event_id,) = await finished_events(database, 1, KEEP_EVENTS + DAY)
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET finished_at = now() - interval '40 days' WHERE channel = 'email'")
    assert await purge(database) == {"content": 2, "attempts": 1}
    assert await left(database) == {event_id}


@pytest.mark.parametrize("status", EventStatus)
async def test_an_event_without_jobs_goes_only_when_it_is_over(database: Database, status: EventStatus) -> None:
    send_at = datetime.now(UTC) + DAY if status is EventStatus.SCHEDULED else None
    event_ids = await accept_events(database, [new_event(send_at=send_at)])
    reason = "routing_failed" if status is EventStatus.FAILED else ""
    async with database.hot() as pg:
        await pg.execute(
            "UPDATE events SET status = $1, reason = $2, routed_at = CASE WHEN $1 = 'ROUTED' THEN now() END",
            status,
            reason,
        )
    await make_older(database, event_ids, 2 * KEEP_EVENTS)
    await purge(database)
    is_open = status in (EventStatus.SCHEDULED, EventStatus.QUEUED)
    assert await left(database) == (set(event_ids) if is_open else set())


async def test_an_event_cancelled_before_its_time_is_kept_from_that_time_on(database: Database) -> None:
    (event_id,) = await accept_events(database, [new_event(send_at=datetime.now(UTC) + DAY)])
    async with database.hot() as pg:
        await pg.execute(
            """
            UPDATE events
            SET status = 'CANCELLED', received_at = now() - interval '300 days', announced_at = received_at
            """
        )
    await purge(database)
    assert await left(database) == {event_id}


async def test_a_key_is_free_again_when_its_event_is_gone_and_not_before(database: Database) -> None:
    posted = new_event(key="booking-42")
    for age, is_new in ((KEEP_CONTENT + DAY, False), (KEEP_EVENTS, True)):
        event_ids = await accept_events(database, [posted])
        async with database.hot() as pg:
            await pg.execute("UPDATE events SET status = 'ROUTED', routed_at = now()")
        await make_older(database, event_ids, age)
        await purge(database)
        async with database.hot() as pg:
            assert bool(await insert_if_new(pg, [posted])) == is_new


async def test_a_large_backlog_goes_in_portions_past_what_has_to_stay(database: Database) -> None:
    waiting = await finished_events(database, 12, KEEP_EVENTS + 2 * DAY, email_waits=True)
    await finished_events(database, 23, KEEP_EVENTS + DAY)
    younger = await finished_events(database, 7, DAY)
    assert await purge(database, portion=5) == {"content": 58, "attempts": 35, "outgoing": 46, "events": 23}
    assert await left(database) == {*waiting, *younger}
    assert await purge(database, portion=5) == {}


async def test_a_sweep_that_ends_early_is_taken_up_where_it_ended(database: Database) -> None:
    await finished_events(database, 4, KEEP_EVENTS + 2 * DAY, email_waits=True)
    await finished_events(database, 6, KEEP_EVENTS + DAY)
    stopping, one = asyncio.Event(), purger(database, portion=8)
    stopping.set()
    gone = [(await one.sweep(stopping))["events"] for _ in range(3)]
    assert gone == [0, 4, 2]


async def test_two_purgers_at_once_share_the_work_and_never_wait_for_each_other(database: Database) -> None:
    await finished_events(database, 200, KEEP_EVENTS + DAY)
    swept = await asyncio.gather(*(purger(database, portion=10).sweep(asyncio.Event()) for _ in range(4)))
    again = await purger(database).sweep(asyncio.Event())
    total = sum([*swept, again], Counter[str]())
    assert {table: total[table] for table in ("content", "attempts", "outgoing", "events")} == {
        "content": 400,
        "attempts": 200,
        "outgoing": 400,
        "events": 200,
    }
    assert await left(database) == set()


@pytest.mark.parametrize("table", ["events", "outgoing"])
async def test_an_event_that_somebody_has_in_hand_is_passed_over_without_waiting(
    database: Database, table: str
) -> None:
    first, second = await finished_events(database, 2, KEEP_EVENTS + DAY)
    async with held(database, table, first):
        assert (await purge(database))["events"] == 1
    assert await left(database) == {first}
    assert (await purge(database))["events"] == 1
    assert second not in await left(database)


async def test_a_job_that_is_being_replayed_keeps_its_content(database: Database) -> None:
    (event_id,) = await finished_events(database, 1, KEEP_EVENTS + DAY)
    async with held(database, "outgoing", event_id) as pg:
        await pg.execute(
            """
            UPDATE outgoing SET status = 'PENDING', reason = '', finished_at = NULL
            WHERE event_id = $1 AND channel = 'email'
            """,
            event_id,
        )
        assert await purge(database) == {}
    assert await purge(database) == {"content": 1, "attempts": 1}
    assert await left(database) == {event_id}


async def test_an_event_without_content_is_still_explained_and_listed(database: Database) -> None:
    async with running_ingest(database) as ingest:
        scope_id = ingest.scopes[Mode.LIVE]
        (event_id,) = await finished_events(database, 1, KEEP_CONTENT + DAY, scope_id=scope_id)
        await purge(database)
        assert (await counts(database))["content"] == 0
        path = f"/api/v1/events/{format_event_id(event_id)}"
        explained = (await ingest.live.get(path)).raise_for_status().json()
        assert (explained["status"], explained["outcome"]) == ("ROUTED", "partly_sent")
        assert [(job["channel"], job["status"], job["attempts"]) for job in explained["jobs"]] == [
            ("inapp", "SENT", []),
            ("email", "FAILED", []),
        ]
        for listed in ("/api/v1/events", "/api/v1/jobs", "/api/v1/jobs/failed"):
            page = (await ingest.live.get(listed)).raise_for_status().json()["data"]
            assert len(page) == {"/api/v1/events": 1, "/api/v1/jobs": 2, "/api/v1/jobs/failed": 1}[listed]


async def test_ingest_purges_by_itself(database: Database) -> None:
    young = await finished_events(database, 1, KEEP_CONTENT - DAY)
    await finished_events(database, 1, KEEP_EVENTS + DAY)
    async with running_ingest(database):

        async def purged() -> bool:
            return await left(database) == set(young)

        await eventually(purged)


async def test_what_is_still_to_be_done_is_never_deleted_by_any_sweep(database: Database) -> None:
    jobs = [new_job(channel=channel) for channel in Channel for _ in range(3)]
    await create_jobs(database, jobs)
    await make_older(database, [job.event_id for job in jobs], 10 * KEEP_EVENTS)
    assert await purge(database) == {}
    assert (await counts(database))["outgoing"] == (await counts(database))["content"] == 9


@pytest.mark.parametrize(
    ("content", "events", "named"),
    [
        ("30d", "29d", ("WAYBILL_KEEP_EVENTS=29d", "30d")),
        ("60d", "45d", ("WAYBILL_KEEP_EVENTS=45d", "WAYBILL_KEEP_CONTENT=60d")),
        ("1m", "90d", ("WAYBILL_KEEP_CONTENT=1m", "1h")),
    ],
)
def test_times_that_contradict_each_other_are_refused_with_the_numbers(
    content: str, events: str, named: tuple[str, ...]
) -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings(IngestSettings, {"WAYBILL_KEEP_CONTENT": content, "WAYBILL_KEEP_EVENTS": events})
    (mistake,) = raised.value.mistakes
    assert all(name in mistake for name in named)
