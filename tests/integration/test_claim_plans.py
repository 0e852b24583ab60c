"""What claims and looks touch: their share of an index, whatever lies about and whatever the planner believes.

Statistics are those of empty tables throughout. Pages are counted, for they are the same on every machine.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from shared.channel import Channel
from shared.ids import ScopeId
from shared.job import Lane
from shared.store.claim import SUSPECT_WINDOW, Claim, Head, Share, claim, claim_suspect
from shared.store.database import Database
from shared.store.discovery import EVER, RECENT, discover, revisit
from tests.fakes.plans import Watched
from tests.fakes.postgres import Databases

ROWS = 200_000
FEW = 2_000
SCOPES = 20
JOBS = 100
LEASE = timedelta(seconds=30)
HOUR, MOMENT = timedelta(hours=1), timedelta(seconds=5)
ALL = ScopeId(0)
PAUSED = ScopeId(1_000)

PREPARE = (
    "ALTER TABLE outgoing_email SET (autovacuum_enabled = off)",
    "ALTER TABLE content SET (autovacuum_enabled = off)",
    "ALTER TABLE attempts SET (autovacuum_enabled = off)",
    "ANALYZE outgoing, content, attempts",
)
# Every job was tried once: what a claim reads of older attempts is read.
FILL = """
WITH made AS (
  INSERT INTO outgoing (event_id, scope_id, channel, attempts, max_attempts, claim_seq, reported_seq, expires_at,
                        due_at)
  SELECT gen_random_uuid(), $2 + n % $3, 'email', 1, 3, 1, 1, now() + interval '1 day', now() - $4::interval * n / $1
  FROM generate_series(1, $1::int) AS n
  RETURNING job_id
),
tried AS (
  INSERT INTO attempts (job_id, claim_seq, number, verdict, started_at, applied)
  SELECT job_id, 1, 1, 'deferred', now(), true
  FROM made
)
INSERT INTO content (job_id, event_type, recipient_id, file_version, terms, body)
SELECT job_id, 'note', 'bob', 1, '{}', '{}'
FROM made
"""
FINISH = "UPDATE outgoing SET status = 'SENT', finished_at = now() WHERE status = 'PENDING'"
SUSPECT = """
UPDATE outgoing
SET lost = 2
WHERE job_id = ANY (ARRAY(SELECT job_id FROM outgoing WHERE scope_id = $1 ORDER BY due_at, job_id LIMIT $2))
"""


async def fill(pg: Any, rows: int, within: timedelta, scopes: int = SCOPES, first: int = 1) -> None:
    await pg.execute(FILL, rows, first, scopes, within)


@dataclass(frozen=True)
class Place:
    """A database, and the pages that each doing touched in it while it was new: undone claims leave their traces."""

    database: Database
    pages: Mapping[str, int]


@asynccontextmanager
async def unfilled(databases: Databases) -> AsyncIterator[tuple[Database, str]]:
    async with databases.fresh() as url:
        database = Database(url, within=timedelta(minutes=2))
        async with database.hot() as pg:
            for statement in PREPARE:
                await pg.execute(statement)
        yield database, url
        await database.close()


async def measured(database: Database) -> Place:
    pages = {}
    for doing in DOINGS:
        async with watching(database) as watched:
            await doing(watched)
        pages[doing.__name__] = watched.buffers
    return Place(database, pages)


@pytest.fixture(scope="module")
async def small(databases: Databases) -> AsyncIterator[Place]:
    """A few due jobs and nothing else."""
    async with unfilled(databases) as (database, _):
        async with database.hot() as pg:
            await fill(pg, FEW, MOMENT)
        yield await measured(database)


@pytest.fixture(scope="module")
async def backlog(databases: Databases) -> AsyncIterator[Place]:
    """A hundred times as many, due over the last hour."""
    async with unfilled(databases) as (database, _):
        async with database.hot() as pg:
            await fill(pg, ROWS, HOUR)
        yield await measured(database)


@pytest.fixture(scope="module")
async def aftermath(databases: Databases) -> AsyncIterator[Place]:
    """A few due jobs behind many that were finished under an old snapshot, and a paused tenant's of two days ago."""
    async with unfilled(databases) as (database, url):
        reader = await asyncpg.connect(url, timeout=30)
        async with database.hot() as pg:
            await fill(pg, ROWS, HOUR)
            await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            await reader.fetchval("SELECT count(*) FROM tenants")
            await pg.execute(FINISH)
            await fill(pg, 1, timedelta(days=2), scopes=1, first=PAUSED)
            await fill(pg, FEW, MOMENT)
        yield await measured(database)
        await reader.close(timeout=10)


@pytest.fixture(params=["backlog", "aftermath"])
def crowded(request: pytest.FixtureRequest) -> Any:
    """Either of the large ones."""
    return request.getfixturevalue(request.param)


@asynccontextmanager
async def watching(database: Database, mode: str = "auto") -> AsyncIterator[Any]:
    """A watched connection whose doings are undone at the end."""
    async with database.hot() as pg:
        transaction = pg.transaction()
        await transaction.start()
        try:
            await pg.execute(f"SET LOCAL plan_cache_mode = {mode}")
            yield Watched(pg)
        finally:
            await transaction.rollback()


async def heads_of(pg: Any) -> list[Head]:
    """Every head there is, looked for unwatched."""
    return (await discover(pg.unwatched, Channel.EMAIL, ALL, EVER)).heads


async def claim_some(pg: Any, scopes: Sequence[int] = range(1, SCOPES + 1)) -> list[Claim]:
    shares = [Share(head, JOBS // len(scopes)) for head in await heads_of(pg) if head.scope_id in scopes]
    return await claim(pg, Channel.EMAIL, shares, LEASE, "tester")


async def _claim(pg: Any) -> None:
    assert len(await claim_some(pg)) == JOBS


async def _seek_suspect(pg: Any) -> None:
    assert await claim_suspect(pg, Channel.EMAIL, (await heads_of(pg))[:8], LEASE, "tester") is None


async def _look(pg: Any) -> None:
    heads = (await discover(pg, Channel.EMAIL, ALL, RECENT)).heads
    assert [head.scope_id for head in heads] == list(range(1, SCOPES + 1))


async def _look_at_everything(pg: Any) -> None:
    heads = (await discover(pg, Channel.EMAIL, ALL, EVER)).heads
    assert [head.scope_id for head in heads if head.scope_id < PAUSED] == list(range(1, SCOPES + 1))


async def _revisit(pg: Any) -> None:
    heads = await heads_of(pg)
    assert (await revisit(pg, Channel.EMAIL, heads)).heads == heads


Doing = Callable[[Any], Awaitable[None]]
DOINGS: tuple[Doing, ...] = (_look, _revisit, _look_at_everything, _seek_suspect, _claim)


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("doing", DOINGS)
async def test_nothing_is_read_or_sorted_as_a_whole(crowded: Place, doing: Doing, mode: str) -> None:
    async with watching(crowded.database, mode) as watched:
        await doing(watched)
    assert watched.scanned == set()
    assert watched.most_sorted <= JOBS


@pytest.mark.parametrize(
    # A look steps over the older part of each lane: two descents instead of one. A small place has less to search.
    ("name", "most"),
    [("_claim", 1.5), ("_look", 2.5), ("_revisit", 1.5), ("_look_at_everything", 1.5), ("_seek_suspect", 3)],
)
async def test_a_hundred_times_the_backlog_costs_hardly_more(
    small: Place, backlog: Place, name: str, most: float
) -> None:
    few, many = small.pages[name], backlog.pages[name]
    print(f"{name}: {few} pages, {many} with a backlog")
    assert many <= most * few


async def test_what_an_old_snapshot_keeps_costs_a_claim_hardly_more(small: Place, aftermath: Place) -> None:
    without, under = small.pages["_claim"], aftermath.pages["_claim"]
    print(f"{without} pages, {under} under an old snapshot")
    assert under <= 3 * without


@pytest.mark.parametrize("name", ["_look", "_revisit"])
async def test_a_look_goes_through_what_was_finished_lately_and_nothing_older(
    small: Place, aftermath: Place, name: str
) -> None:
    without, under = small.pages[name], aftermath.pages[name]
    print(f"{name}: {without} pages, {under} under an old snapshot")
    lately = ROWS * RECENT / HOUR
    assert under <= 3 * without + 1.5 * lately


async def test_stepping_over_suspects_costs_their_rows_and_no_more(backlog: Place) -> None:
    count = 300
    async with watching(backlog.database) as watched:
        await watched.unwatched.execute(SUSPECT, 1, count)
        assert len(await claim_some(watched, scopes=[1])) == JOBS
    usual = backlog.pages["_claim"]
    print(f"{usual} pages without suspects, {watched.buffers} over {count} of them")
    # A row and its newer version.
    assert watched.buffers <= usual + 3 * count


async def test_a_suspect_is_found_without_going_through_the_backlog(backlog: Place) -> None:
    async with watching(backlog.database) as watched:
        await watched.unwatched.execute(SUSPECT, 1, 1)
        (head,) = [head for head in await heads_of(watched) if head.suspect]
        assert head.key == (1, Lane.TRANSACTIONAL)
        one = await claim_suspect(watched, Channel.EMAIL, [head], LEASE, "tester")
    assert one is not None
    print(f"{watched.buffers} pages")
    assert watched.buffers <= 5 * SUSPECT_WINDOW
