"""Behind hundreds of thousands of finished rows every statement of the sweeps and of ingest still goes by its index.

The rows were finished under an old snapshot, so that their entries are still in every index; statistics are as they
are kept, or gone.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from shared.channel import Channel
from shared.event import EventStatus
from shared.ids import ScopeId
from shared.job import JobReason, JobStatus, Lane
from shared.store.announcing import lock_queued_before, lock_unrouted, mark_announced_if_queued, promote_due
from shared.store.backlog import due_jobs, queued_events
from shared.store.cancel import cancel_events
from shared.store.cancel_lists import count_open, find_open
from shared.store.claim import Head, Share, claim
from shared.store.database import Database, HotConnection
from shared.store.discovery import EVER, RECENT
from shared.store.events import find_by_key, insert_if_new, read_event
from shared.store.expiry import expire_locked, lock_expired
from shared.store.inbox_delivery import enter_due, enter_siblings
from shared.store.jobs import jobs_of_event
from shared.store.outgoing import create_if_missing
from shared.store.purge import BEFORE_EVERY_EVENT, BEFORE_EVERY_JOB, purge_content, purge_events
from shared.store.routing import End, count_try_if_seen, find_suspects, finish_if_queued, lock_queued
from shared.store.settle import Report, settle_if_claimed
from tests.factories import accept_events, create_jobs, new_event, new_job
from tests.fakes.plans import Watched
from tests.fakes.postgres import Databases

EVENTS = 67_000
JOBS = 3 * EVENTS
SCOPES = 3
LIVE = 20
LIMIT = 500
TABLES = ("events", "outgoing_email", "outgoing_inapp", "outgoing_push", "content", "attempts")

# A hundred days of events, the oldest first in every key, all waiting since an hour ago.
WAITING = (
    f"""
    INSERT INTO events (event_id, scope_id, idempotency_key, body_hash, event_type, ref, recipient, payload, status,
                        file_version, received_at, expires_at, announced_at)
    SELECT (lpad(to_hex(n), 12, '0') || '7000' || '8000' || lpad(to_hex(n), 12, '0'))::uuid, 1 + n % {SCOPES}, n::text,
           decode(repeat('00', 32), 'hex'), 'type_' || n % 7, 'ref-' || n % 1000,
           json_build_object('id', 'r' || n % 500), '{{}}', 'QUEUED', 1,
           now() - ({EVENTS} - n) * interval '100 days' / {EVENTS}, now() + interval '1 day', now() - interval '1 hour'
    FROM generate_series(1, {EVENTS}) AS n
    """,
    """
    INSERT INTO outgoing (event_id, scope_id, channel, status, max_attempts, due_at, expires_at, created_at)
    SELECT event_id, scope_id, channel, 'PENDING', 3, now() - interval '1 hour', expires_at, received_at
    FROM events, unnest(ARRAY['email', 'inapp', 'push']) AS channel
    """,
)
FINISHED = (
    "UPDATE events SET status = 'ROUTED', routed_at = received_at, announced_at = received_at",
    "UPDATE outgoing SET status = 'SENT', finished_at = created_at, claim_seq = 1, reported_seq = 1",
    """
    INSERT INTO content (job_id, event_type, recipient_id, file_version, terms, body)
    SELECT job_id, 'type_1', 'r1', 1, '{}', '{}' FROM outgoing
    """,
    """
    INSERT INTO attempts (job_id, claim_seq, provider, verdict, started_at, applied)
    SELECT job_id, 1, 'smtp', 'delivered', now(), true FROM outgoing
    """,
    *(f"ANALYZE {table}" for table in TABLES),
)


@asynccontextmanager
async def old_snapshot(url: str) -> AsyncIterator[None]:
    """Nothing that is deleted or changed meanwhile can be vacuumed."""
    reader = await asyncpg.connect(url, timeout=30)
    try:
        await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await reader.fetchval("SELECT count(*) FROM outgoing")
        yield
    finally:
        await reader.close(timeout=10)


async def add_live(database: Database) -> None:
    """What is to be done right now: due jobs, expired ones, events to route and to promote."""
    soon = datetime.now(UTC) + timedelta(milliseconds=1)
    await accept_events(database, [new_event() for _ in range(LIVE)], soon - timedelta(minutes=3))
    await accept_events(database, [new_event(send_at=soon) for _ in range(LIVE)], soon - timedelta(minutes=3))
    await create_jobs(database, [new_job(scope_id=1 + n % SCOPES) for n in range(LIVE)])
    expired = timedelta(seconds=-1)
    await create_jobs(database, [new_job(scope_id=1 + n % SCOPES, expires_in=expired) for n in range(LIVE)])


@pytest.fixture(scope="module")
async def small(databases: Databases) -> AsyncIterator[Database]:
    """What is to be done and nothing else."""
    async with databases.fresh() as url:
        database = Database(url)
        await add_live(database)
        yield database
        await database.close()


@pytest.fixture(scope="module")
async def large(databases: Databases) -> AsyncIterator[Database]:
    """The same behind 67,000 events and 201,000 jobs that are over."""
    async with databases.fresh() as url:
        database = Database(url, within=timedelta(seconds=120))
        async with database.hot() as pg:
            for table in TABLES:
                await pg.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
            for statement in WAITING:
                await pg.execute(statement)
            async with old_snapshot(url):
                for statement in FINISHED:
                    await pg.execute(statement)
                await add_live(database)
                yield database
        await database.close()


Statement = Callable[[Any], Awaitable[object]]


async def _insert(pg: Any) -> None:
    posted = [new_event(scope_id=1 + n % SCOPES) for n in range(50)]
    assert len(await insert_if_new(pg, posted)) == 50
    assert await find_by_key(pg, ScopeId(1), posted[0].idempotency_key) is not None


async def _insert_again(pg: Any) -> None:
    assert await insert_if_new(pg, [new_event(scope_id=2, key="1")]) == {}
    assert await find_by_key(pg, ScopeId(2), "1") is not None


async def _route(pg: Any) -> None:
    rows = await pg.unwatched.fetch(
        "SELECT event_id FROM events WHERE status = 'QUEUED' AND announced_at > now() - $1::interval", RECENT
    )
    event_ids = [row["event_id"] for row in rows]
    await mark_announced_if_queued(pg, event_ids)
    suspects = await find_suspects(pg, event_ids)
    assert len(suspects) == LIVE
    assert await count_try_if_seen(pg, suspects[0])
    assert len(await lock_queued(pg, event_ids)) == LIVE
    assert len(await create_if_missing(pg, [new_job(event_id=event_id) for event_id in event_ids])) == LIVE
    assert await finish_if_queued(pg, [End(event_id, EventStatus.ROUTED) for event_id in event_ids])


async def _explain(pg: Any) -> None:
    (event_id,) = await pg.fetchrow("SELECT event_id FROM events WHERE scope_id = 1 AND idempotency_key = '600'")
    assert await read_event(pg, ScopeId(1), event_id) is not None
    assert len(await jobs_of_event(pg, ScopeId(1), event_id)) == 3


async def _cancel(pg: Any) -> None:
    rows = await pg.unwatched.fetch("SELECT event_id FROM events WHERE scope_id = 1 AND ref = 'ref-6'")
    assert len(rows) > EVENTS // 1000 // SCOPES
    assert await find_open(pg, ScopeId(1), "ref-6", None, 100) == []
    event_ids = [row["event_id"] for row in rows]
    assert (await count_open(pg, ScopeId(1), event_ids)).job_count == 0
    await cancel_events(pg, ScopeId(1), event_ids)


async def _promote(pg: Any) -> None:
    assert len(await promote_due(pg, 1000)) == LIVE


async def _announce(pg: Any) -> None:
    assert len(await lock_queued_before(pg, datetime.now(UTC), 200)) == LIVE
    assert len(await lock_unrouted(pg, timedelta(minutes=2), 200)) == LIVE


async def _enter(pg: Any) -> None:
    made = await create_if_missing(pg, [new_job(channel=Channel.INAPP) for _ in range(LIVE)])
    first, *others = [job.event_id for job in made]
    assert len(await enter_siblings(pg, others)) == LIVE - 1
    assert len(await enter_due(pg, [Share(Head(ScopeId(1), Lane.TRANSACTIONAL, None), 10)])) == 1
    assert await enter_siblings(pg, [first]) == []


async def _settle(pg: Any) -> None:
    shares = [Share(Head(ScopeId(1 + n), Lane.TRANSACTIONAL, None), LIVE) for n in range(SCOPES)]
    claims = await claim(pg.unwatched, Channel.EMAIL, shares, timedelta(seconds=30), "tester")
    reports = [
        Report(
            one.job_id, one.claim_seq, JobStatus.PENDING, JobReason.NONE, timedelta(minutes=1), True, 0, 0, False, ()
        )
        for one in claims
    ]
    assert len(await settle_if_claimed(pg, Channel.EMAIL, reports)) == 2 * LIVE


async def _expire(pg: Any) -> None:
    job_ids = await lock_expired(pg, Channel.EMAIL, 2000)
    assert len(await expire_locked(pg, Channel.EMAIL, job_ids)) == LIVE


async def _look(pg: Any, since: timedelta = RECENT) -> None:
    assert [(await due_jobs(pg, channel, since)).count for channel in Channel] == [0, 2 * LIVE, 0]
    assert (await queued_events(pg, since)).count == LIVE


async def _look_back(pg: Any) -> None:
    await _look(pg, EVER)


async def _purge_content(pg: Any) -> None:
    portion = await purge_content(pg, timedelta(days=30), BEFORE_EVERY_JOB, LIMIT)
    assert (portion.gone["content"], portion.gone["attempts"]) == (LIMIT, LIMIT)
    assert portion.reached is not None


async def _purge_events(pg: Any) -> None:
    portion = await purge_events(pg, timedelta(days=90), BEFORE_EVERY_EVENT, LIMIT)
    assert [portion.gone[table] for table in ("events", "outgoing", "content", "attempts")] == [LIMIT, *[3 * LIMIT] * 3]
    assert portion.reached is not None


STATEMENTS = (
    _insert,
    _insert_again,
    _route,
    _enter,
    _explain,
    _cancel,
    _settle,
    _promote,
    _announce,
    _expire,
    _look,
    _look_back,
    _purge_content,
    _purge_events,
)


async def forget_statistics(pg: HotConnection) -> None:
    """Let the planner know no more of the tables than that they are there."""
    for table in TABLES:
        await pg.execute(f"SELECT pg_clear_relation_stats('public', '{table}')")
    await pg.execute("DELETE FROM pg_statistic WHERE starelid = ANY ($1::regclass[])", TABLES)


@asynccontextmanager
async def watching(database: Database, mode: str = "auto", *, stale: bool = False) -> AsyncIterator[Watched]:
    """A watched connection whose doings are undone at the end."""
    async with database.hot() as pg:
        transaction = pg.transaction()
        await transaction.start()
        try:
            await pg.execute(f"SET LOCAL plan_cache_mode = {mode}")
            if stale:
                await forget_statistics(pg)
            yield Watched(pg)
        finally:
            await transaction.rollback()


@pytest.mark.parametrize("stale", [False, True], ids=["fresh", "stale"])
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("statement", STATEMENTS)
async def test_nothing_is_read_from_end_to_end(large: Database, statement: Statement, mode: str, stale: bool) -> None:
    async with watching(large, mode, stale=stale) as watched:
        await statement(watched)
    assert watched.scanned == set()


@pytest.mark.parametrize("statement", [_insert, _route, _enter, _settle, _promote, _expire, _look])
async def test_finished_rows_cost_nothing(small: Database, large: Database, statement: Statement) -> None:
    touched = []
    for database in (small, large):
        async with watching(database) as watched:
            await statement(watched)
        touched.append(watched.buffers)
    print(f"{statement.__name__}: {touched}")
    # Indexes are two levels deeper, and that is all.
    assert touched[1] <= 3 * touched[0] + 100


@pytest.mark.parametrize(
    ("statement", "most"), [(_cancel, 300), (_purge_content, 3 * LIMIT), (_purge_events, 3 * LIMIT)]
)
async def test_no_step_goes_through_more_rows_than_it_is_about(
    large: Database, statement: Statement, most: int
) -> None:
    async with watching(large) as watched:
        await statement(watched)
    print(f"{statement.__name__}: {watched.buffers} pages, {watched.most_rows} rows")
    assert watched.most_rows <= most
    assert watched.buffers <= 120 * most
