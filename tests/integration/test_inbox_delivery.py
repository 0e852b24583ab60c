"""The one statement of the in-app channel: entries exactly once, in order, counted."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from shared.channel import Channel
from shared.delivery.effect import released
from shared.delivery.record import report_of
from shared.ids import ScopeId
from shared.job import Lane
from shared.store.claim import Head, Share
from shared.store.database import Database
from shared.store.inbox_delivery import Entered, enter_due, enter_if_claimed
from shared.store.settle import settle_if_claimed
from tests.factories import claim_jobs, create_jobs, new_job

SHARES = [Share(Head(ScopeId(1), Lane.TRANSACTIONAL, None), 100)]


async def enter(database: Database) -> list[Entered]:
    async with database.hot() as pg:
        return await enter_due(pg, SHARES)


async def test_each_job_becomes_one_entry_in_the_order_of_its_recipient(database: Database) -> None:
    made = await create_jobs(
        database, [new_job(channel=Channel.INAPP, recipient_id=name) for name in ("bob", "eve", "bob")]
    )
    assert [one.status for one in await enter(database)] == ["SENT"] * 3
    assert await enter(database) == []
    async with database.hot() as pg:
        rows = await pg.fetch("SELECT recipient_id, seq, job_id FROM inbox ORDER BY recipient_id, seq")
        heads = await pg.fetch("SELECT recipient_id, last_seq, unread_count FROM inbox_heads ORDER BY 1")
        attempts = await pg.fetch("SELECT verdict, applied FROM attempts")
        ledger = await pg.fetch("SELECT status, n FROM ledger WHERE n <> 0")
    assert [tuple(row) for row in rows] == [
        ("bob", 1, made[0].job_id),
        ("bob", 2, made[2].job_id),
        ("eve", 1, made[1].job_id),
    ]
    assert [tuple(row) for row in heads] == [("bob", 2, 2), ("eve", 1, 1)]
    assert [tuple(row) for row in attempts] == [("delivered", True)] * 3
    assert [tuple(row) for row in ledger] == [("SENT", 3)]


async def test_an_entry_that_had_to_wait_is_the_first_attempt(database: Database) -> None:
    await create_jobs(database, [new_job(channel=Channel.INAPP)])
    (one,) = await claim_jobs(database, channel=Channel.INAPP)
    async with database.hot() as pg:
        await settle_if_claimed(pg, Channel.INAPP, [report_of(one, released(one))])
        assert len(await enter(database)) == 1
        rows = await pg.fetch("SELECT claim_seq, number FROM attempts")
    assert [tuple(row) for row in rows] == [(2, 1)]


async def test_many_writers_at_once_leave_no_gap_and_no_repeat(database: Database) -> None:
    await create_jobs(database, [new_job(channel=Channel.INAPP, recipient_id=f"r{n % 7}") for n in range(400)])
    while any(await asyncio.gather(*(enter(database) for _ in range(6)))):
        pass
    async with database.hot() as pg:
        gaps = await pg.fetch(
            "SELECT recipient_id FROM inbox GROUP BY recipient_id HAVING max(seq) <> count(*) OR min(seq) <> 1"
        )
        count = await pg.fetchval("SELECT count(*) FROM inbox")
        unread = await pg.fetchval("SELECT sum(unread_count) FROM inbox_heads")
    assert (gaps, count, unread) == ([], 400, 400)


async def test_an_expired_job_fails_without_an_entry(database: Database) -> None:
    await create_jobs(database, [new_job(channel=Channel.INAPP, expires_in=timedelta(seconds=-1))])
    (one,) = await enter(database)
    assert (one.status, one.reason) == ("FAILED", "expired")
    async with database.hot() as pg:
        assert await pg.fetchval("SELECT count(*) FROM inbox") == 0


async def test_an_entry_of_a_claim_that_no_longer_stands_is_not_written(database: Database) -> None:
    await create_jobs(database, [new_job(channel=Channel.INAPP)])
    (one,) = await claim_jobs(database, channel=Channel.INAPP)
    async with database.hot() as pg:
        assert await enter_if_claimed(pg, one.job_id, one.claim_seq + 1) == []
        assert len(await enter_if_claimed(pg, one.job_id, one.claim_seq)) == 1
        assert await enter_if_claimed(pg, one.job_id, one.claim_seq) == []


async def test_the_database_itself_refuses_a_second_entry_of_an_event(database: Database) -> None:
    job = new_job(channel=Channel.INAPP)
    await create_jobs(database, [job])
    await enter(database)
    async with database.hot() as pg:
        with pytest.raises(asyncpg.UniqueViolationError, match="inbox_once"):
            await pg.execute(
                "INSERT INTO inbox (scope_id, recipient_id, seq, event_id, job_id, event_type, content)"
                " SELECT scope_id, recipient_id, seq + 1, event_id, job_id, event_type, content FROM inbox"
            )
