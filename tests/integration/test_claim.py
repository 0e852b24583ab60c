"""Claiming: leases, order, shares, and what a vanished claim leaves behind."""

import asyncio
from datetime import timedelta

from shared.channel import Channel
from shared.ids import ScopeId
from shared.job import Lane
from shared.store.claim import Head, Share, claim, claim_suspect
from shared.store.database import Database
from tests.factories import claim_jobs, create_jobs, end_leases, new_job


async def test_creating_the_same_job_twice_makes_one_row(database: Database) -> None:
    job = new_job()
    await create_jobs(database, [job])
    async with database.hot() as pg:
        from shared.store.outgoing import create_if_missing

        assert await create_if_missing(pg, [job]) == []
        assert await pg.fetchval("SELECT count(*) FROM outgoing") == 1
        assert await pg.fetchval("SELECT n FROM ledger WHERE channel = 'email' AND status = 'PENDING'") == 1


async def test_a_claim_brings_content_and_terms(database: Database) -> None:
    await create_jobs(database, [new_job(subject="Booked")])
    (one,) = await claim_jobs(database)
    assert (one.claim_seq, one.lost, one.attempts, one.recipient_id) == (1, 0, 0, "bob")
    assert one.body is not None
    assert "Booked" in one.body
    assert one.terms is not None


async def test_a_leased_job_is_not_claimed_again_before_its_lease_ends(database: Database) -> None:
    await create_jobs(database, [new_job()])
    assert len(await claim_jobs(database)) == 1
    assert await claim_jobs(database) == []
    await end_leases(database)
    (again,) = await claim_jobs(database)
    assert (again.claim_seq, again.lost) == (2, 1)
    async with database.hot() as pg:
        rows = await pg.fetch("SELECT claim_seq, verdict FROM attempts")
    assert [tuple(row) for row in rows] == [(1, "lost")]


async def test_two_claims_at_once_never_take_the_same_job(database: Database) -> None:
    await create_jobs(database, [new_job() for _ in range(200)])
    taken = await asyncio.gather(*(claim_jobs(database, quota=40) for _ in range(8)))
    ids = [one.job_id for claims in taken for one in claims]
    assert len(ids) == len(set(ids)) == 200


async def test_each_scope_gets_its_share(database: Database) -> None:
    await create_jobs(database, [new_job(scope_id=1) for _ in range(50)] + [new_job(scope_id=2)])
    shares = [Share(Head(ScopeId(scope), Lane.TRANSACTIONAL, None), 5) for scope in (1, 2)]
    async with database.hot() as pg:
        claims = await claim(pg, Channel.EMAIL, shares, timedelta(seconds=30), "tester")
    assert sorted(one.scope_id for one in claims) == [1, 1, 1, 1, 1, 2]


async def test_an_expired_job_says_so(database: Database) -> None:
    await create_jobs(database, [new_job(expires_in=timedelta(seconds=-1))])
    (one,) = await claim_jobs(database)
    assert one.expired


async def vanish(database: Database, times: int) -> None:
    """Have every job claimed ``times`` over, each time by a worker that dies."""
    async with database.hot() as pg:
        for _ in range(times):
            shares = [Share(Head(ScopeId(1), Lane.TRANSACTIONAL, None), 1_000)]
            await claim(pg, Channel.EMAIL, shares, timedelta(seconds=30), "mortal", suspects=True)
            await end_leases(database)


async def test_a_job_that_vanished_twice_is_stepped_over_and_claimed_alone(database: Database) -> None:
    poison = (await create_jobs(database, [new_job() for _ in range(2)]))[:2]
    await vanish(database, 1)
    assert len(await claim_jobs(database)) == 2, "once may have been anybody's fault"
    await end_leases(database)
    await create_jobs(database, [new_job() for _ in range(3)])
    assert len(await claim_jobs(database, quota=4)) == 3
    heads = [Head(ScopeId(1), Lane.TRANSACTIONAL, None), Head(ScopeId(2), Lane.BULK, None)]
    taken = []
    async with database.hot() as pg:
        while one := await claim_suspect(pg, Channel.EMAIL, heads, timedelta(seconds=30), "brave"):
            assert (one.lost, one.claim_seq) == (2, 3)
            assert one.body is not None
            taken.append(one.job_id)
    assert sorted(taken) == [job.job_id for job in poison]


async def test_two_at_once_never_take_the_same_suspect(database: Database) -> None:
    await create_jobs(database, [new_job() for _ in range(4)])
    await vanish(database, 2)

    async def take() -> int:
        async with database.hot() as pg:
            heads = [Head(ScopeId(1), Lane.TRANSACTIONAL, None)]
            one = await claim_suspect(pg, Channel.EMAIL, heads, timedelta(seconds=30), "brave")
        return one.job_id if one else 0

    taken = [job_id for job_id in await asyncio.gather(*(take() for _ in range(6))) if job_id]
    assert len(taken) == len(set(taken))
    assert taken


async def test_a_suspect_that_was_released_or_replayed_is_none_any_more(database: Database) -> None:
    await create_jobs(database, [new_job()])
    await vanish(database, 2)
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET lost = 0, claim_seq = claim_seq + 1, reported_seq = claim_seq + 1")
    assert len(await claim_jobs(database)) == 1
