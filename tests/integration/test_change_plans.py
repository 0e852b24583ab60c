"""What the feed costs: a page, a sweep and a portion of the purge read a bounded number of rows, however long it is."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import asyncpg
import pytest

from services.ingest.numberer import MOST_AT_ONCE
from shared.ids import ScopeId
from shared.job import JobReason, JobStatus
from shared.store.change_feed import extent_of, purge_changes, read_after, words_of_events
from shared.store.database import Database, HotConnection
from shared.store.numbering import BEFORE_EVERYTHING, number_visible
from tests.factories import create_jobs, new_job
from tests.fakes.changes import number_all
from tests.fakes.plans import Watched
from tests.fakes.postgres import Databases

ROWS = 20_000
SCOPE = ScopeId(1)
LIMIT = 50
# Rows of one to four jobs, of two scopes in turn.
FILL = (
    "ALTER TABLE changes SET (autovacuum_enabled = off)",
    f"""
    INSERT INTO changes (scope_id, kind, channel, status, event_ids, n)
    SELECT 1 + r % 2, 'job', 'email', 'SENT', ARRAY(SELECT gen_random_uuid() FROM generate_series(0, r % 4)), 1 + r % 4
    FROM generate_series(1, {ROWS}) AS r
    """,
)


@pytest.fixture(scope="module", params=["stale statistics", "statistics"])
async def filled(databases: Databases, request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """A long feed, numbered under a snapshot that sees it without numbers still, and five changes that have none.

    Statistics are those of a time when nothing was numbered, or of now.
    """
    early = request.param == "stale statistics"
    async with databases.fresh() as url:
        database, reader = Database(url, within=timedelta(seconds=120)), await asyncpg.connect(url, timeout=30)
        async with database.hot() as pg:
            for statement in FILL:
                await pg.execute(statement)
            if early:
                await pg.execute("ANALYZE changes")
        await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await reader.fetchval("SELECT count(*) FROM changes")
        assert await number_all(database) == ROWS
        born = replace(new_job(), status=JobStatus.SKIPPED, reason=JobReason.PREFERENCE, body=None)
        for _ in range(5):
            await create_jobs(database, [replace(born, event_id=new_job().event_id)])
        if not early:
            async with database.hot() as pg:
                await pg.execute("VACUUM ANALYZE changes")
        yield database
        await reader.close(timeout=10)
        await database.close()


@pytest.fixture(params=["force_custom_plan", "force_generic_plan"])
async def watched(filled: Database, request: pytest.FixtureRequest) -> AsyncIterator[Watched]:
    async with filled.hot() as pg:
        undone = pg.transaction()
        await undone.start()
        await pg.execute(f"SET LOCAL plan_cache_mode = {request.param}")
        yield Watched(pg)
        await undone.rollback()


async def bound_of(pg: HotConnection) -> int:
    """Where a sweep that has just numbered everything would go on."""
    bound: int = await pg.fetchval("SELECT min(written_by) FROM changes WHERE last_seq IS NULL")
    return bound


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
async def test_a_page_reads_its_own_rows_wherever_it_begins(watched: Watched, share: float) -> None:
    pg: HotConnection = watched  # type: ignore[assignment] # what it is asked, a connection is
    extent = await extent_of(pg, SCOPE)
    page = await read_after(pg, SCOPE, int(extent.last_seq * share), LIMIT)
    await words_of_events(pg, SCOPE, [change.event_id for change in page if change.event_id])
    assert len(page) == LIMIT
    assert watched.scanned <= {"events", "change_heads"}, "which have next to nothing in them"
    assert watched.most_rows <= LIMIT


@pytest.mark.parametrize("whole", [False, True])
async def test_a_sweep_reads_what_is_new_beside_all_that_an_old_snapshot_keeps(watched: Watched, whole: bool) -> None:
    pg: HotConnection = watched  # type: ignore[assignment] # what it is asked, a connection is
    since = BEFORE_EVERYTHING if whole else await bound_of(watched.unwatched)
    numbered = await number_visible(pg, since, MOST_AT_ONCE)
    assert numbered is not None
    assert numbered.count == 5
    assert watched.scanned <= {"change_heads"}
    assert watched.most_rows <= 25
    assert whole or watched.buffers <= 150


async def test_a_purge_reads_a_portion_and_where_nothing_is_old_one_row_of_each_feed(watched: Watched) -> None:
    pg: HotConnection = watched  # type: ignore[assignment] # what it is asked, a connection is
    assert await purge_changes(pg, timedelta(days=90), 20, 500) == 0
    assert watched.most_rows <= 2
    await watched.unwatched.execute("UPDATE changes SET at = now() - interval '91 days' WHERE last_seq < 10000")
    assert await purge_changes(pg, timedelta(days=90), 20, 500) == 1000
    assert watched.scanned <= {"change_heads"}
    assert watched.most_rows <= 1000
