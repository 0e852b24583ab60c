"""Claiming: leases, order, shares, and what a vanished claim leaves behind."""

import asyncio
from datetime import timedelta

from shared.channel import Channel
from shared.ids import ScopeId
from shared.job import Lane
from shared.store.claim import Head, Share, claim, discover
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


async def test_discovery_names_every_lane_with_due_jobs_once(database: Database) -> None:
    await create_jobs(database, [new_job(scope_id=scope) for scope in (1, 1, 7)])
    await create_jobs(database, [new_job(scope_id=7, lane=Lane.BULK), new_job(scope_id=9, channel=Channel.INAPP)])
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET due_at = now() + interval '1 hour' WHERE scope_id = 1")
        heads = await discover(pg, Channel.EMAIL)
    assert [(head.scope_id, head.lane) for head in heads] == [(7, Lane.TRANSACTIONAL), (7, Lane.BULK)]


async def test_a_job_due_long_ago_is_found_through_discovery(database: Database) -> None:
    await create_jobs(database, [new_job()])
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET due_at = now() - interval '2 days'")
        (head,) = await discover(pg, Channel.EMAIL)
        assert len(await claim(pg, Channel.EMAIL, [Share(head, 1)], timedelta(seconds=30), "tester")) == 1


async def test_an_expired_job_says_so(database: Database) -> None:
    await create_jobs(database, [new_job(expires_in=timedelta(seconds=-1))])
    (one,) = await claim_jobs(database)
    assert one.expired
