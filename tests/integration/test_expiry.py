"""Expiry without a claim: what waits behind a pause ends in time, and whoever holds a job is not disturbed."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from services.ingest.expirer import MOST_AT_ONCE, Expirer
from shared.channel import Channel
from shared.delivery.effect import effect_of
from shared.delivery.record import report_of
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.claim import Claim
from shared.store.database import Database
from shared.store.settle import AttemptRow, Report, settle_if_claimed
from shared.verdict import VERDICT_WORDS, Deferred, Delivered, Verdict
from tests.factories import claim_jobs, create_jobs, end_leases, new_job
from tests.fakes.ingest import running_ingest
from tests.fakes.ledger import ledger_mistakes
from tests.fakes.product import eventually

PAST = timedelta(seconds=-1)
TERMS = Terms(DEFAULT_POLICIES[Channel.EMAIL])


@pytest.fixture
def expirer(database: Database) -> Expirer:
    return Expirer(database, timedelta(seconds=60))


def report(claim: Claim, verdict: Verdict) -> Report:
    word = VERDICT_WORDS[type(verdict)]
    row = AttemptRow(
        0,
        "smtp",
        word,
        "",
        None,
        None,
        None,
        datetime.now(UTC),
        timedelta(0),
        target_dead=False,
        possible_duplicate=False,
    )
    return report_of(claim, effect_of(verdict, claim, TERMS, random.Random(1)), (row,))


async def settle(database: Database, *reports: Report) -> list[str]:
    async with database.hot() as pg:
        return [one.act for one in await settle_if_claimed(pg, Channel.EMAIL, reports)]


async def states(database: Database) -> list[tuple[object, ...]]:
    """Each (status, reason, lost, how many attempts) there is, with its number of jobs."""
    async with database.hot() as pg:
        rows = await pg.fetch(
            """
            SELECT status, reason, lost, (SELECT count(*) FROM attempts a WHERE a.job_id = o.job_id) AS tried, count(*)
            FROM outgoing o
            GROUP BY 1, 2, 3, 4
            ORDER BY 1, 2, 3, 4
            """
        )
    return [tuple(row) for row in rows]


async def expire_all(database: Database) -> None:
    """Let the time of every job have been up for a second."""
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET expires_at = now() - interval '1 second'")


@asynccontextmanager
async def held(database: Database, job_id: int) -> AsyncIterator[None]:
    """The job is locked by somebody else meanwhile."""
    async with database.hot() as pg, pg.transaction():
        await pg.execute("SELECT FROM outgoing WHERE channel = 'email' AND job_id = $1 FOR UPDATE", job_id)
        yield


async def test_a_job_nobody_claims_fails_once_its_time_is_up(database: Database, expirer: Expirer) -> None:
    await create_jobs(database, [new_job(expires_in=PAST, scope_id=scope) for scope in (2, 1, 2)])
    await create_jobs(database, [new_job(), new_job(expires_in=PAST, channel=Channel.INAPP)])
    assert [await expirer.sweep(channel) for channel in (Channel.EMAIL, Channel.EMAIL, Channel.INAPP)] == [3, 0, 1]
    assert await states(database) == [("FAILED", "expired", 0, 0, 4), ("PENDING", "", 0, 0, 1)]
    assert await ledger_mistakes(database) == []


async def test_a_job_in_a_claim_is_its_workers_to_end(database: Database, expirer: Expirer) -> None:
    await create_jobs(database, [new_job(expires_in=PAST)])
    (claim,) = await claim_jobs(database)
    assert await expirer.sweep(Channel.EMAIL) == 0
    assert await settle(database, report(claim, Delivered())) == ["applied"]
    assert await expirer.sweep(Channel.EMAIL) == 0
    assert await states(database) == [("SENT", "", 0, 1, 1)]


async def test_a_job_that_one_target_has_already_is_partly_sent(database: Database, expirer: Expirer) -> None:
    await create_jobs(database, [new_job()])
    (claim,) = await claim_jobs(database)
    effect = effect_of(Deferred(), claim, TERMS, random.Random(1))
    started_at = datetime.now(UTC)
    targets = tuple(
        AttemptRow(target, "fcm", word, "", None, None, None, started_at, timedelta(0), False, False)
        for target, word in ((1, "delivered"), (2, "deferred"))
    )
    assert await settle(database, report_of(claim, effect, targets)) == ["applied"]
    await expire_all(database)
    assert await expirer.sweep(Channel.EMAIL) == 1
    assert await states(database) == [("SENT", "partial", 0, 2, 1)]
    assert await ledger_mistakes(database) == []


async def test_a_claim_that_vanished_is_recorded_and_its_late_delivered_still_wins(
    database: Database, expirer: Expirer
) -> None:
    await create_jobs(database, [new_job()])
    (claim,) = await claim_jobs(database)
    await end_leases(database)
    await expire_all(database)
    assert await expirer.sweep(Channel.EMAIL) == 1
    assert await states(database) == [("FAILED", "expired", 1, 1, 1)]
    assert await ledger_mistakes(database) == []
    assert await settle(database, report(claim, Deferred())) == ["stale"]
    assert await settle(database, report(claim, Delivered())) == ["stale"], "the claim has said deferred"
    assert await states(database) == [("FAILED", "expired", 1, 1, 1)]

    await create_jobs(database, [new_job(scope_id=2)])
    (other,) = await claim_jobs(database, scopes=[2])
    await end_leases(database)
    await expire_all(database)
    assert await expirer.sweep(Channel.EMAIL) == 1
    assert await settle(database, report(other, Delivered())) == ["late"]
    assert await states(database) == [("FAILED", "expired", 1, 1, 1), ("SENT", "", 1, 1, 1)]
    assert await ledger_mistakes(database) == []


async def test_a_job_somebody_has_in_hand_is_passed_over_without_waiting(database: Database, expirer: Expirer) -> None:
    made = await create_jobs(database, [new_job(expires_in=PAST), new_job(expires_in=PAST)])
    async with held(database, made[0].job_id):
        assert await expirer.sweep(Channel.EMAIL) == 1
    assert await expirer.sweep(Channel.EMAIL) == 1


async def test_sweeps_and_claims_at_once_never_end_a_job_twice(database: Database, expirer: Expirer) -> None:
    await create_jobs(database, [new_job(expires_in=PAST, scope_id=1 + n % 3) for n in range(600)])

    async def claim_some() -> list[Claim]:
        return [claim for _ in range(5) for claim in await claim_jobs(database, scopes=(1, 2, 3), quota=7)]

    sweeping = asyncio.gather(*(expirer.sweep(Channel.EMAIL) for _ in range(3)))
    claims = [claim for some in await asyncio.gather(claim_some(), claim_some()) for claim in some]
    swept = sum(await sweeping)
    assert len({claim.job_id for claim in claims}) == len(claims)
    assert swept + len(claims) == 600
    assert all(claim.expired for claim in claims)
    assert await ledger_mistakes(database) == []


async def test_a_delivered_that_meets_the_sweep_is_sent_whoever_comes_first(
    database: Database, expirer: Expirer
) -> None:
    await create_jobs(database, [new_job(scope_id=1 + n % 3) for n in range(300)])
    claims = await claim_jobs(database, scopes=(1, 2, 3))
    await end_leases(database)
    await expire_all(database)
    batches = [claims[at : at + 20] for at in range(0, len(claims), 20)]
    sweeping = asyncio.gather(*(expirer.sweep(Channel.EMAIL) for _ in range(2)))
    settled = await asyncio.gather(
        *(settle(database, *(report(claim, Delivered()) for claim in batch)) for batch in batches)
    )
    await sweeping
    assert len(claims) == 300
    assert {act for acts in settled for act in acts} <= {"applied", "late"}
    async with database.hot() as pg:
        assert await pg.fetchval("SELECT count(*) FROM outgoing WHERE status = 'SENT' AND reason = ''") == 300
    assert await ledger_mistakes(database) == []


async def test_a_large_backlog_is_ended_in_portions(database: Database, expirer: Expirer) -> None:
    count = MOST_AT_ONCE + 50
    await create_jobs(database, [new_job(expires_in=PAST) for _ in range(count)])
    assert await expirer.sweep(Channel.EMAIL) == count
    assert await ledger_mistakes(database) == []


async def test_ingest_sweeps_by_itself(database: Database) -> None:
    async with running_ingest(database, sweep_every=timedelta(milliseconds=50)):
        await create_jobs(
            database, [new_job(expires_in=PAST, channel=channel) for channel in (Channel.EMAIL, Channel.INAPP)]
        )

        async def expired() -> bool:
            return await states(database) == [("FAILED", "expired", 0, 0, 2)]

        await eventually(expired)
