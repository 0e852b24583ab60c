"""The ledger says what the tables say, whatever happened to a job, and goes on saying it when they are purged."""

import asyncio
import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from msgspec.structs import replace as changed

from services.ingest.figures import figures_of
from services.ingest.schemas import DeliveryOut
from shared.channel import Channel
from shared.delivery.effect import effect_of, released
from shared.delivery.record import report_of
from shared.ids import ScopeId
from shared.job import JobReason, Lane
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.claim import Claim, Head, Share
from shared.store.database import Database
from shared.store.inbox_delivery import enter_due
from shared.store.ledger import LEDGER_OF_SCOPE, ledger_of_scope
from shared.store.settle import AttemptRow, Report, settle_if_claimed, settle_without_attempt
from shared.tenant import Mode
from shared.verdict import VERDICT_WORDS, Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict
from tests.factories import claim_jobs, create_jobs, end_leases, new_job
from tests.fakes.ingest import running_ingest
from tests.fakes.ledger import ledger_mistakes

TERMS = Terms(DEFAULT_POLICIES[Channel.EMAIL])
VERDICTS: list[Verdict] = [
    Delivered("id"),
    Rejected(),
    Deferred(),
    Deferred(timedelta(seconds=1)),
    NoVerdict(handed_over=False),
    NoVerdict(handed_over=True),
    SenderBlocked("relay"),
]
SCOPES = (1, 2, 3)


def report(claim: Claim, verdict: Verdict, targets: int = 1) -> Report:
    """A report of ``claim`` with one attempt for each of ``targets``."""
    row = AttemptRow(
        0, "smtp", VERDICT_WORDS[type(verdict)], "", None, None, None, datetime.now(UTC), timedelta(), False, False
    )
    rows = tuple(changed(row, target_id=number) for number in range(targets))
    return report_of(claim, effect_of(verdict, claim, TERMS, random.Random(1)), rows)


async def settle(database: Database, *reports: Report) -> None:
    async with database.hot() as pg:
        await settle_if_claimed(pg, Channel.EMAIL, reports)


async def delivery(database: Database, channel: Channel = Channel.EMAIL) -> DeliveryOut:
    """The figures of one channel of the first scope."""
    async with database.hot() as pg:
        return figures_of(await ledger_of_scope(pg, ScopeId(1))).delivery[channel]


async def make_due(database: Database) -> None:
    """Let every pending job be due and every lease over, wherever chance has left them."""
    await end_leases(database)
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET due_at = now() WHERE status = 'PENDING'")


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_to_jobs_the_ledger_says_what_the_tables_say(database: Database, seed: int) -> None:
    rng = random.Random(seed)
    await create_jobs(database, [new_job(scope_id=rng.choice(SCOPES)) for _ in range(60)])
    in_hand: list[Report] = []

    def answer(claim: Claim) -> Report:
        if rng.random() < 0.1:
            return report_of(claim, released(claim))
        return report(claim, rng.choice(VERDICTS), rng.randint(1, 3))

    async def settle_some() -> None:
        chosen = {one.job_id: one for one in rng.sample(in_hand, min(len(in_hand), rng.randint(1, 25)))}
        await settle(database, *chosen.values())
        if rng.random() < 0.3:
            # Whether it was committed was not known: the same reports once more.
            await settle(database, *chosen.values())

    for _ in range(12):
        await make_due(database)
        in_hand += [answer(one) for one in await claim_jobs(database, scopes=SCOPES, quota=rng.randint(1, 20))]
        if in_hand:
            await asyncio.gather(*(settle_some() for _ in range(3)))
        assert await ledger_mistakes(database) == [], f"seed {seed}"
    async with database.hot() as pg:
        kinds = await pg.fetch("SELECT DISTINCT verdict, applied, late FROM attempts")
    assert len(kinds) > 6, "chance has left out what is to be proven"


async def test_a_lost_claim_counts_as_an_attempt_and_its_late_report_as_a_round(database: Database) -> None:
    await create_jobs(database, [new_job()])
    (first,) = await claim_jobs(database)
    await end_leases(database)
    (second,) = await claim_jobs(database)
    figures = await delivery(database)
    assert (figures.attempts, figures.rounds, figures.jobs_tried) == (1, 0, 0)
    await settle(database, report(second, Deferred()))
    await settle(database, report(first, Delivered()))
    figures = await delivery(database)
    assert (figures.attempts, figures.rounds, figures.jobs_tried, figures.retries) == (2, 2, 1, 1)
    assert figures.retry_rate == 0.5
    assert await ledger_mistakes(database) == []


async def test_a_stale_report_is_an_attempt_and_no_round(database: Database) -> None:
    await create_jobs(database, [new_job()])
    (first,) = await claim_jobs(database)
    await end_leases(database)
    (second,) = await claim_jobs(database)
    await settle(database, report(first, Deferred()))
    await settle(database, report(second, Delivered()))
    figures = await delivery(database)
    assert (figures.attempts, figures.rounds, figures.jobs_tried, figures.retries) == (2, 1, 1, 0)
    assert await ledger_mistakes(database) == []


async def test_a_replayed_job_is_tried_again_and_still_one_job(database: Database) -> None:
    await create_jobs(database, [new_job()])
    (first,) = await claim_jobs(database)
    await settle(database, report(first, Rejected()))
    async with database.hot() as pg:
        await pg.execute(
            """
            UPDATE outgoing
            SET status = 'PENDING', reason = '', attempts = 0, unanswered = 0, unknowns = 0, finished_at = NULL,
                claim_seq = claim_seq + 1, reported_seq = claim_seq + 1, due_at = now()
            """
        )
    (again,) = await claim_jobs(database)
    await settle(database, report(again, Delivered()))
    figures = await delivery(database)
    assert (figures.rounds, figures.jobs_tried, figures.retries) == (2, 1, 1)


async def test_a_status_written_without_its_attempt_counts_no_attempt(database: Database) -> None:
    await create_jobs(database, [new_job()])
    (claim,) = await claim_jobs(database)
    async with database.hot() as pg:
        await settle_without_attempt(pg, Channel.EMAIL, report(claim, Delivered()))
    figures = await delivery(database)
    assert (figures.sent, figures.attempts, figures.rounds) == (1, 0, 0)
    assert await ledger_mistakes(database) == []


async def test_a_job_whose_first_attempt_could_not_be_written_is_tried_once_it_has_one(database: Database) -> None:
    await create_jobs(database, [new_job()])
    (claim,) = await claim_jobs(database)
    async with database.hot() as pg:
        await settle_without_attempt(pg, Channel.EMAIL, report(claim, Deferred()))
    await make_due(database)
    (again,) = await claim_jobs(database)
    await settle(database, report(again, Delivered()))
    figures = await delivery(database)
    assert (figures.attempts, figures.rounds, figures.jobs_tried, figures.retries) == (1, 1, 1, 0)
    assert await ledger_mistakes(database) == []


async def test_a_push_counts_each_target_and_one_round(database: Database) -> None:
    await create_jobs(database, [new_job()])
    (claim,) = await claim_jobs(database)
    await settle(database, report(claim, Delivered(), targets=3))
    figures = await delivery(database)
    assert (figures.attempts, figures.rounds, figures.sent) == (3, 1, 1)


async def test_what_only_the_inbox_has_is_told_apart_and_has_no_time_to_sent(database: Database) -> None:
    await create_jobs(database, [new_job(), new_job()])
    rung, alone = await claim_jobs(database)
    only = changed(report(alone, Delivered()), reason=JobReason.INBOX_ONLY, attempts=())
    await settle(database, report(rung, Delivered()), only)
    figures = await delivery(database)
    assert (figures.sent, figures.inbox_only) == (1, 1)
    assert await ledger_mistakes(database) == []


async def test_in_app_jobs_are_counted_by_the_statement_that_enters_them(database: Database) -> None:
    jobs = [new_job(channel=Channel.INAPP) for _ in range(5)]
    late = new_job(channel=Channel.INAPP, expires_in=timedelta(seconds=-1))
    await create_jobs(database, [*jobs, late])
    async with database.hot() as pg:
        await enter_due(pg, [Share(Head(ScopeId(1), Lane.TRANSACTIONAL, None), 100)])
    figures = await delivery(database, Channel.INAPP)
    assert (figures.sent, figures.attempts, figures.rounds, figures.jobs_tried) == (5, 5, 5, 5)
    assert figures.failed == {"expired": 1}
    assert figures.accept_to_sent is not None
    assert await ledger_mistakes(database) == []


async def test_the_time_to_sent_is_measured_from_acceptance_to_within_five_percent(database: Database) -> None:
    now = datetime.now(UTC)
    waits = [timedelta(seconds=seconds) for seconds in (1, 5, 20, 60, 300, 900, 3600, 7200, 40_000, 90_000)]
    await create_jobs(database, [replace(new_job(), accepted_at=now - wait) for wait in waits])
    await settle(database, *(report(claim, Delivered()) for claim in await claim_jobs(database)))
    async with database.hot() as pg:
        exact = await pg.fetchrow(
            """
            SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY finished_at - accepted_at) AS half,
                   percentile_disc(0.95) WITHIN GROUP (ORDER BY finished_at - accepted_at) AS most
            FROM outgoing
            """
        )
    assert exact is not None
    told = (await delivery(database)).accept_to_sent
    assert told is not None
    assert told.p50_ms == pytest.approx(exact["half"] / timedelta(milliseconds=1), rel=0.05)
    assert told.p95_ms == pytest.approx(exact["most"] / timedelta(milliseconds=1), rel=0.05)


async def test_figures_outlive_everything_they_count(database: Database) -> None:
    async with running_ingest(database) as ingest:
        scope_id = ingest.scopes[Mode.LIVE]
        await create_jobs(database, [new_job(scope_id=scope_id) for _ in range(4)])
        claims = await claim_jobs(database, scopes=[scope_id])
        verdicts: list[Verdict] = [Delivered(), Rejected(), Deferred(), NoVerdict(handed_over=False)]
        await settle(database, *(report(claim, verdict) for claim, verdict in zip(claims, verdicts, strict=True)))
        before = (await ingest.live.get("/api/v1/metrics")).json()
        async with database.hot() as pg:
            for table in ("attempts", "content", "outgoing", "events"):
                await pg.execute(f"DELETE FROM {table}")
        assert (await ingest.live.get("/api/v1/metrics")).json() == before
    email = before["delivery"]["email"]
    assert (email["sent"], email["failed"], email["pending"]) == (1, {"rejected": 1}, 2)
    assert (email["attempts"], email["rounds"], email["retries"], email["retry_rate"]) == (4, 4, 0, 0.0)


async def test_figures_are_read_from_the_ledgers_index_alone(database: Database) -> None:
    async with database.hot() as pg:
        await pg.execute(
            """
            INSERT INTO ledger (scope_id, day, channel, status, reason, n)
            SELECT scope, date '2026-01-01' + day, channel, status, '', 1
            FROM generate_series(1, 20) AS scope, generate_series(1, 60) AS day,
                 unnest(ARRAY['email', 'inapp', 'push']) AS channel,
                 unnest(ARRAY['PENDING', 'SENT', 'FAILED', 'SKIPPED']) AS status
            """
        )
        await pg.execute("ANALYZE ledger")
        plan = "\n".join(row[0] for row in await pg.fetch(f"EXPLAIN {LEDGER_OF_SCOPE}", ScopeId(3), date(2026, 2, 1)))
    assert "ledger_pkey" in plan
    assert "Seq Scan" not in plan


async def test_figures_of_a_day_leave_out_what_was_created_before(database: Database) -> None:
    async with running_ingest(database) as ingest:
        scope_id, today = ingest.scopes[Mode.LIVE], datetime.now(UTC).date()
        await create_jobs(database, [new_job(scope_id=scope_id) for _ in range(2)])
        await settle(database, *(report(one, Delivered()) for one in await claim_jobs(database, scopes=[scope_id])))
        async with database.hot() as pg:
            # A minute ago it was yesterday.
            await pg.execute("UPDATE ledger SET day = day - 1")

        async def sent(query: str) -> int:
            answer = await ingest.live.get(f"/api/v1/metrics{query}")
            return int(answer.json()["delivery"]["email"]["sent"])

        assert (
            await sent("") == await sent(f"?since={today - timedelta(days=1)}") == await sent("?since=0001-01-01") == 2
        )
        assert await sent(f"?since={today}") == await sent("?since=9999-12-31") == 0
        for wrong in ("?since=yesterday", "?since=2026-02-30", "?since=20261201", "?since=", "?sinse=2026-12-01"):
            answer = await ingest.live.get(f"/api/v1/metrics{wrong}")
            assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
