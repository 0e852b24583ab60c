"""The fence: which reports count, which are recorded and change nothing, and what the ledger says afterwards."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from shared.channel import Channel
from shared.delivery.effect import effect_of, failed_unsent, held, released
from shared.delivery.record import report_of
from shared.ids import ScopeId
from shared.job import JobReason, JobStatus
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.claim import Claim
from shared.store.database import Database
from shared.store.job_lists import JobKey
from shared.store.replay import ReplayOptions, lock_jobs, replay_if_failed
from shared.store.settle import AttemptRow, Report, settle_if_claimed, settle_without_attempt
from shared.verdict import VERDICT_WORDS, Deferred, Delivered, NoVerdict, Rejected, Verdict
from tests.factories import claim_jobs, create_jobs, end_leases, new_job

TERMS = Terms(DEFAULT_POLICIES[Channel.EMAIL])


def report(claim: Claim, verdict: Verdict) -> Report:
    effect = effect_of(verdict, claim, TERMS, random.Random(1))
    row = AttemptRow(
        0,
        "smtp",
        VERDICT_WORDS[type(verdict)],
        "",
        None,
        None,
        None,
        datetime.now(UTC),
        timedelta(seconds=1),
        False,
        False,
    )
    return report_of(claim, effect, (row,))


async def settle(database: Database, *reports: Report) -> list[str]:
    async with database.hot() as pg:
        return [one.act for one in await settle_if_claimed(pg, Channel.EMAIL, reports)]


async def job(database: Database) -> dict[str, object]:
    async with database.hot() as pg:
        return dict(await pg.fetchrow("SELECT * FROM outgoing") or {})


async def attempts(database: Database) -> list[tuple[object, ...]]:
    async with database.hot() as pg:
        rows = await pg.fetch("SELECT claim_seq, number, verdict, applied, late FROM attempts ORDER BY claim_seq")
    return [tuple(row) for row in rows]


async def ledger_agrees(database: Database) -> bool:
    async with database.hot() as pg:
        wrong = await pg.fetch(
            """
            SELECT * FROM (SELECT scope_id, channel, status, reason, n FROM ledger WHERE n <> 0) AS l
            FULL JOIN (SELECT scope_id, channel, status, reason, count(*) AS n FROM outgoing GROUP BY 1, 2, 3, 4) AS o
            USING (scope_id, channel, status, reason, n)
            WHERE l.n IS NULL OR o.n IS NULL OR l IS NULL OR o IS NULL
            """
        )
    return not wrong


async def claimed(database: Database) -> Claim:
    await create_jobs(database, [new_job()])
    (one,) = await claim_jobs(database)
    return one


async def claimed_again(database: Database) -> tuple[Claim, Claim]:
    first = await claimed(database)
    await end_leases(database)
    (second,) = await claim_jobs(database)
    return first, second


async def test_a_delivered_job_is_sent_with_one_attempt(database: Database) -> None:
    one = await claimed(database)
    assert await settle(database, report(one, Delivered())) == ["applied"]
    row = await job(database)
    assert (row["status"], row["attempts"], row["claimed_by"]) == ("SENT", 1, None)
    assert await attempts(database) == [(1, 1, "delivered", True, False)]
    assert await ledger_agrees(database)


async def test_a_report_written_twice_changes_nothing_the_second_time(database: Database) -> None:
    one = await claimed(database)
    deferred = report(one, Deferred())
    assert await settle(database, deferred) == ["applied"]
    before = await job(database)
    assert await settle(database, deferred) == ["stale"]
    assert await job(database) == before
    assert await attempts(database) == [(1, 1, "deferred", True, False)]


async def test_lease_lost_during_send_leaves_the_new_owner_alone(database: Database) -> None:
    first, second = await claimed_again(database)
    assert await settle(database, report(first, Rejected())) == ["stale"]
    row = await job(database)
    assert (row["status"], row["claim_seq"], row["reported_seq"]) == ("PENDING", 2, 0)
    assert await settle(database, report(second, Deferred())) == ["applied"]
    assert await attempts(database) == [(1, 1, "rejected", False, True), (2, 2, "deferred", True, False)]


async def test_a_late_delivered_wins_over_a_pending_job(database: Database) -> None:
    first, second = await claimed_again(database)
    assert await settle(database, report(first, Delivered())) == ["late"]
    assert (await job(database))["status"] == "SENT"
    assert await settle(database, report(second, Rejected())) == ["stale"]
    assert (await job(database))["status"] == "SENT"
    assert await ledger_agrees(database)


@pytest.mark.parametrize(("reason", "act"), [("rejected", "late"), ("expired", "late"), ("bounced", "stale")])
async def test_a_late_delivered_wins_over_every_failure_but_a_bounce(database: Database, reason: str, act: str) -> None:
    first, second = await claimed_again(database)
    await settle(database, report(second, Rejected(reason=JobReason(reason))))
    assert await settle(database, report(first, Delivered())) == [act]
    assert await ledger_agrees(database)


async def test_nothing_leaves_sent(database: Database) -> None:
    first, second = await claimed_again(database)
    await settle(database, report(second, Delivered()))
    for verdict in (Rejected(), Deferred(), NoVerdict(True), Delivered()):
        assert await settle(database, report(first, verdict)) == ["stale"]
    assert (await job(database))["status"] == "SENT"


async def test_deferrals_end_exhausted_at_the_limit_and_not_before(database: Database) -> None:
    await create_jobs(database, [new_job()])
    limit = TERMS.retry.attempts
    for round_number in range(1, limit + 1):
        async with database.hot() as pg:
            await pg.execute("UPDATE outgoing SET due_at = now(), expires_at = now() + interval '9 hours'")
        (one,) = await claim_jobs(database)
        await settle(database, report(one, Deferred()))
        row = await job(database)
        assert row["attempts"] == round_number
        assert row["status"] == ("FAILED" if round_number == limit else "PENDING")
    assert (await job(database))["reason"] == "exhausted"
    assert [number for _, number, *_ in await attempts(database)] == list(range(1, limit + 1))


async def test_silence_costs_no_attempt_and_an_answer_resets_it(database: Database) -> None:
    one = await claimed(database)
    await settle(database, report(one, NoVerdict(handed_over=False)))
    row = await job(database)
    assert (row["attempts"], row["unanswered"], row["status"]) == (0, 1, "PENDING")
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET due_at = now()")
    (one,) = await claim_jobs(database)
    await settle(database, report(one, Deferred()))
    row = await job(database)
    assert (row["attempts"], row["unanswered"]) == (1, 0)


async def test_what_would_come_due_after_its_expiry_has_failed(database: Database) -> None:
    await create_jobs(database, [new_job(expires_in=timedelta(seconds=20))])
    (one,) = await claim_jobs(database)
    await settle(database, report(one, Deferred(retry_after=timedelta(minutes=5))))
    row = await job(database)
    assert (row["status"], row["reason"]) == ("FAILED", "expired")


async def test_what_is_held_back_beyond_its_expiry_stays_pending_until_then(database: Database) -> None:
    await create_jobs(database, [new_job(expires_in=timedelta(seconds=20))])
    (one,) = await claim_jobs(database)
    await settle(database, report_of(one, held(one, timedelta(seconds=60))))
    row = await job(database)
    assert (row["status"], row["due_at"]) == ("PENDING", row["expires_at"])


async def test_what_is_held_back_when_it_has_expired_has_failed(database: Database) -> None:
    one = await claimed(database)
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET expires_at = now()")
    await settle(database, report_of(one, held(one, timedelta(seconds=60))))
    row = await job(database)
    assert (row["status"], row["reason"]) == ("FAILED", "expired")


async def test_a_retried_job_moves_to_the_lane_above(database: Database) -> None:
    one = await claimed(database)
    await settle(database, report(one, Deferred()))
    assert (await job(database))["lane"] == 1


async def test_a_released_job_is_due_at_once_and_nothing_was_counted(database: Database) -> None:
    one = await claimed(database)
    effect = released(one)
    await settle(database, report_of(one, effect))
    (again,) = await claim_jobs(database)
    assert (again.claim_seq, again.lost, again.attempts, again.lane) == (2, 0, 0, 0)
    assert await attempts(database) == []


async def test_attempts_are_numbered_as_if_claims_without_one_had_not_been(database: Database) -> None:
    one = await claimed(database)
    await settle(database, report_of(one, released(one)))
    await claim_jobs(database)
    await end_leases(database)
    (one,) = await claim_jobs(database)
    await settle(database, report(one, Delivered()))
    assert await attempts(database) == [(2, 1, "lost", True, False), (3, 2, "delivered", True, False)]


async def test_the_status_is_written_even_when_the_attempt_cannot_be(database: Database) -> None:
    one = await claimed(database)
    async with database.hot() as pg:
        (settled,) = await settle_without_attempt(pg, Channel.EMAIL, report(one, Delivered()))
    assert (settled.act, settled.status) == ("applied", JobStatus.SENT)
    assert await attempts(database) == []
    assert await ledger_agrees(database)


async def test_a_job_that_expires_after_some_target_got_it_is_partly_sent(database: Database) -> None:
    one = await claimed(database)
    await settle(database, report(one, Deferred()))
    async with database.hot() as pg:
        await pg.execute("UPDATE attempts SET verdict = 'delivered'")
        await pg.execute("UPDATE outgoing SET due_at = now(), expires_at = now()")
    (again,) = await claim_jobs(database)
    assert again.expired
    await settle(database, report_of(again, failed_unsent(again, JobReason.EXPIRED)))
    row = await job(database)
    assert (row["status"], row["reason"]) == ("SENT", "partial")


async def test_a_job_replayed_after_a_late_delivery_waits_for_whoever_holds_it(database: Database) -> None:
    (made,) = await create_jobs(database, [new_job()])
    (first,) = await claim_jobs(database)
    await end_leases(database)
    await claim_jobs(database, worker="second")
    assert await settle(database, report(first, Delivered())) == ["late"]
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET status = 'FAILED', reason = 'bounced'")
        key = JobKey(Channel.EMAIL, made.job_id, JobReason.BOUNCED)
        await lock_jobs(pg, ScopeId(1), [key])
        await replay_if_failed(pg, ScopeId(1), [key], ReplayOptions())
    assert (await job(database))["status"] == "PENDING"
    assert await claim_jobs(database, worker="third") == [], "the second may be sending"
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET claimed_until = now() - interval '1 second'")
    assert [one.claim_seq for one in await claim_jobs(database, worker="third")] == [4]
