"""Finding out where due jobs are: by a look at what is recent, at what is known, and at everything."""

from collections.abc import Sequence
from datetime import timedelta

from shared.channel import Channel
from shared.ids import ScopeId
from shared.job import Lane
from shared.store.claim import Head, Share, claim
from shared.store.database import Database
from shared.store.discovery import EVER, HEADS_LIMIT, RECENT, discover, revisit
from tests.factories import claim_jobs, create_jobs, end_leases, new_job

ALL = ScopeId(0)


async def find(database: Database, since: timedelta = RECENT, after: ScopeId = ALL) -> list[Head]:
    async with database.hot() as pg:
        return (await discover(pg, Channel.EMAIL, after, since)).heads


def keys(heads: Sequence[Head]) -> list[tuple[int, Lane]]:
    return [head.key for head in heads]


async def make_due(database: Database, ago: timedelta, scope_id: int) -> None:
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET due_at = now() - $1::interval WHERE scope_id = $2", ago, scope_id)


async def test_every_lane_with_due_jobs_is_named_once(database: Database) -> None:
    await create_jobs(database, [new_job(scope_id=scope) for scope in (1, 1, 7)])
    await create_jobs(database, [new_job(scope_id=7, lane=Lane.BULK), new_job(scope_id=9, channel=Channel.INAPP)])
    await make_due(database, timedelta(hours=-1), 1)
    assert keys(await find(database)) == [(7, Lane.TRANSACTIONAL), (7, Lane.BULK)]
    assert keys(await find(database, EVER)) == [(7, Lane.TRANSACTIONAL), (7, Lane.BULK)]


async def test_an_old_job_is_found_by_the_look_at_everything_and_kept_by_its_low(database: Database) -> None:
    await create_jobs(database, [new_job(scope_id=1), new_job(scope_id=2)])
    await make_due(database, timedelta(days=2), 2)
    assert keys(await find(database)) == [(1, Lane.TRANSACTIONAL)]
    young, old = await find(database, EVER)
    assert young.low is not None
    assert old.low is not None
    assert timedelta(days=1) < young.low - old.low < timedelta(days=3)
    async with database.hot() as pg:
        assert (await revisit(pg, Channel.EMAIL, [young, old])).heads == [young, old]
        assert len(await claim(pg, Channel.EMAIL, [Share(old, 1)], timedelta(seconds=30), "tester")) == 1
        assert (await revisit(pg, Channel.EMAIL, [old])).heads == [old], "in flight it may still be lost"


async def test_a_lane_whose_jobs_are_done_is_not_named_again(database: Database) -> None:
    await create_jobs(database, [new_job(scope_id=1), new_job(scope_id=2)])
    heads = await find(database)
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET status = 'SENT', finished_at = now() WHERE scope_id = 1")
        assert keys((await revisit(pg, Channel.EMAIL, heads)).heads) == [(2, Lane.TRANSACTIONAL)]
    assert keys(await find(database)) == [(2, Lane.TRANSACTIONAL)]


async def test_a_look_goes_on_behind_the_scope_it_was_told(database: Database) -> None:
    await create_jobs(database, [new_job(scope_id=scope) for scope in range(1, HEADS_LIMIT + 3)])
    first = await find(database)
    assert len(first) == HEADS_LIMIT
    rest = await find(database, after=first[-1].scope_id)
    assert keys(rest) == [(HEADS_LIMIT + 1, Lane.TRANSACTIONAL), (HEADS_LIMIT + 2, Lane.TRANSACTIONAL)]


async def test_a_head_says_when_it_is_to_be_claimed_alone(database: Database) -> None:
    await create_jobs(database, [new_job()])
    for lost in (0, 1):
        await claim_jobs(database)
        assert [head.suspect for head in await find(database)] == [False], "in flight, not lost"
        await end_leases(database)
        assert [head.suspect for head in await find(database)] == [lost == 1]
