"""Retrying one job: its state is the guard, its limits begin anew, and what may be a second copy stays marked."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.broker.local import LocalBus
from shared.channel import Channel
from shared.delivery.effect import effect_of, failed_unsent
from shared.delivery.pace import WorkerSettings
from shared.delivery.provider import Parcel
from shared.delivery.record import report_of
from shared.delivery.worker import Worker
from shared.ids import EventId, format_event_id, format_job_id, new_event_id
from shared.job import REASONS, JobReason, JobStatus
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.claim import Claim
from shared.store.database import Database
from shared.store.settle import AttemptRow, settle_if_claimed, settle_without_attempt
from shared.tenant import Mode
from shared.verdict import VERDICT_WORDS, Deferred, Delivered, NoVerdict, Rejected, Verdict
from tests.factories import accept_events, claim_jobs, create_jobs, end_leases, new_event, new_job, until
from tests.fakes.ingest import Ingest, running_ingest
from tests.fakes.ledger import ledger_mistakes
from tests.fakes.product import eventually
from tests.fakes.provider import ScriptedProvider, never_after_handover
from tests.fakes.tenants import OneTenant

HOUR = timedelta(hours=1)
TERMS = Terms(DEFAULT_POLICIES[Channel.EMAIL])
FAILED = [reason for reason, text in REASONS.items() if text.status is JobStatus.FAILED]


@pytest.fixture
async def ingest(database: Database) -> AsyncIterator[Ingest]:
    async with running_ingest(database) as running:
        yield running
    assert await ledger_mistakes(database) == []


async def made(ingest: Ingest, channel: Channel = Channel.EMAIL, **changes: Any) -> EventId:
    """A due job of the live scope, by its event's id."""
    fields: dict[str, Any] = {"channel": channel, "scope_id": ingest.scopes[Mode.LIVE]}
    (job,) = await create_jobs(ingest.database, [new_job(**(fields | changes))])
    return job.event_id


async def claimed(ingest: Ingest) -> Claim:
    async with ingest.database.hot() as pg:
        await pg.execute("UPDATE outgoing SET due_at = now() WHERE due_at > now()")
    (one,) = await claim_jobs(ingest.database, scopes=list(ingest.scopes.values()))
    return one


async def settle(ingest: Ingest, claim: Claim, verdict: Verdict) -> str:
    """What the report of ``claim``, one attempt that ended in ``verdict``, did."""
    word = VERDICT_WORDS[type(verdict)]
    effect = effect_of(verdict, claim, TERMS, random.Random(1))
    repeat = claim.may_repeat or claim.unknowns + claim.lost > 0
    stage = "after_handover" if isinstance(verdict, NoVerdict) and verdict.handed_over else ""
    row = AttemptRow(0, "smtp", word, stage, None, None, None, datetime.now(UTC), timedelta(), False, repeat)
    async with ingest.database.hot() as pg:
        (settled,) = await settle_if_claimed(pg, Channel.EMAIL, [report_of(claim, effect, (row,))])
    return settled.act


async def failed(ingest: Ingest, reason: JobReason = JobReason.REJECTED, **changes: Any) -> EventId:
    """A job of the live scope that FAILED in its first round."""
    event_id = await made(ingest, **changes)
    await settle(ingest, await claimed(ingest), Rejected(reason=reason))
    return event_id


async def retry(ingest: Ingest, event_id: EventId, **options: Any) -> tuple[int, dict[str, Any]]:
    """The answer to a retry of the event's mail; without ``options`` it has no body."""
    url = f"/api/v1/jobs/{format_job_id(event_id, Channel.EMAIL)}/retry"
    answer = await ingest.live.post(url, json=options) if options else await ingest.live.post(url)
    return answer.status_code, answer.json()


async def row(ingest: Ingest) -> dict[str, Any]:
    """The only job there is."""
    async with ingest.database.hot() as pg:
        return dict(await pg.fetchrow("SELECT * FROM outgoing") or {})


@pytest.mark.parametrize("reason", FAILED)
async def test_a_job_that_failed_for_whatever_reason_is_pending_again_with_fresh_limits(
    ingest: Ingest, reason: JobReason
) -> None:
    event_id = await failed(ingest, reason)
    status, told = await retry(ingest, event_id)
    assert (status, told["status"], told["reason"], told["finished_at"]) == (200, "PENDING", None, None)
    assert told["id"] == format_job_id(event_id, Channel.EMAIL)
    job = await row(ingest)
    assert (job["attempts"], job["unanswered"], job["unknowns"], job["lost"]) == (0, 0, 0, 0)
    assert (job["claim_seq"], job["reported_seq"], job["lane"]) == (2, 2, 1)
    claim = await claimed(ingest)
    assert (claim.claim_seq, claim.attempts, claim.lost) == (3, 0, 0)
    assert await settle(ingest, claim, Delivered()) == "applied"
    assert (await row(ingest))["status"] == "SENT"


@pytest.mark.parametrize("status", [status for status in JobStatus if status is not JobStatus.FAILED])
async def test_a_job_in_any_other_status_stays_as_it_is(ingest: Ingest, status: JobStatus) -> None:
    reason = next((reason for reason, text in REASONS.items() if text.status is status), JobReason.NONE)
    job = replace(new_job(scope_id=ingest.scopes[Mode.LIVE]), status=status, reason=reason)
    await create_jobs(ingest.database, [job])
    before = await row(ingest)
    code, told = await retry(ingest, job.event_id)
    assert (code, told["code"]) == (409, "job_not_failed")
    assert f"The job is {status}" in told["detail"]
    assert await row(ingest) == before


async def test_of_many_who_ask_at_once_one_is_the_first_and_the_others_are_told(ingest: Ingest) -> None:
    event_id = await failed(ingest)
    answers = await asyncio.gather(*(retry(ingest, event_id) for _ in range(8)))
    assert sorted(status for status, _ in answers) == [200] + [409] * 7
    assert {told["code"] for status, told in answers if status == 409} == {"job_not_failed"}
    assert (await row(ingest))["claim_seq"] == 2


async def test_a_retry_that_waited_for_another_finds_the_job_pending(ingest: Ingest) -> None:
    event_id = await failed(ingest)
    async with ingest.database.hot() as pg, pg.transaction():
        await pg.execute("SELECT FROM outgoing FOR UPDATE")
        asked = [asyncio.create_task(retry(ingest, event_id)) for _ in range(2)]

        async def both_wait() -> bool:
            return bool(
                await pg.fetchval(
                    "SELECT count(*) = 2 FROM pg_stat_activity "
                    "WHERE datname = current_database() AND wait_event_type = 'Lock'"
                )
            )

        await eventually(both_wait)
    assert sorted([(await one)[0] for one in asked]) == [200, 409]


async def test_two_retries_at_once_with_four_workers_running_make_one_new_attempt(database: Database) -> None:
    bus = LocalBus()
    async with running_ingest(database, bus) as ingest, AsyncExitStack() as workers:
        event_id = await failed(ingest)
        provider = ScriptedProvider()
        for number in range(4):
            await workers.enter_async_context(working(database, bus, provider, f"worker-{number}"))
        answers = await asyncio.gather(retry(ingest, event_id), retry(ingest, event_id))
        assert sorted(status for status, _ in answers) == [200, 409]
        await in_status(ingest, JobStatus.SENT)
        code, told = await retry(ingest, event_id)
        assert (code, told["detail"]) == (409, "The job is SENT.")
    assert len(provider.sent) == 1
    async with database.hot() as pg:
        verdicts = await pg.fetch("SELECT verdict, applied FROM attempts ORDER BY claim_seq")
    assert [tuple(one) for one in verdicts] == [("rejected", True), ("delivered", True)]
    assert await ledger_mistakes(database) == []


async def in_status(ingest: Ingest, status: JobStatus) -> None:
    """Return once the only job there is has come to ``status``."""

    async def there() -> bool:
        return bool((await row(ingest))["status"] == status)

    await eventually(there)


@asynccontextmanager
async def working(
    database: Database,
    bus: LocalBus,
    provider: ScriptedProvider,
    name: str,
    attempt_timeout: timedelta = timedelta(seconds=5),
) -> AsyncIterator[None]:
    """One of several workers on the same bus and provider."""
    second = timedelta(seconds=1)
    settings = WorkerSettings(Channel.EMAIL, name, 10, 30 * second, attempt_timeout, second, second / 10, second / 5)
    worker, stop = Worker(settings, database, OneTenant(), provider), asyncio.Event()
    bus.on_wake(Channel.EMAIL, worker.bell.ring)
    running = asyncio.create_task(worker.run(stop))
    try:
        await until(lambda: worker.idle)
        yield
    finally:
        stop.set()
        async with asyncio.timeout(30):
            await running


async def test_a_retry_wakes_the_channel(database: Database) -> None:
    bus = LocalBus()
    woken: list[frozenset[int]] = []
    async with running_ingest(database, bus) as ingest:
        bus.on_wake(Channel.EMAIL, lambda scopes: woken.append(frozenset(scopes)))
        await retry(ingest, await failed(ingest))
        await until(lambda: woken)
        assert woken == [frozenset({ingest.scopes[Mode.LIVE]})]


@pytest.mark.parametrize("trouble", ["unknown", "lost"])
async def test_what_may_have_gone_out_before_a_retry_is_flagged_after_it_and_the_limits_are_fresh(
    ingest: Ingest, trouble: str
) -> None:
    event_id = await made(ingest)
    claim = await claimed(ingest)
    if trouble == "unknown":
        await settle(ingest, claim, NoVerdict(handed_over=True))
    else:
        await end_leases(ingest.database)
    await settle(ingest, await claimed(ingest), Rejected())
    await retry(ingest, event_id)
    job = await row(ingest)
    assert (job["unknowns"], job["lost"]) == (0, 0)
    # As many silences as a new job survives, and only then is it over.
    for status in ("PENDING", "PENDING", "FAILED"):
        await settle(ingest, await claimed(ingest), NoVerdict(handed_over=True))
        assert (await row(ingest))["status"] == status
    (shown,) = (await ingest.live.get("/api/v1/jobs")).json()["data"]
    assert [attempt["possible_duplicate"] for attempt in shown["attempts"]] == [False, True, True, True, True]


async def test_a_held_job_that_is_retried_is_sent_and_flagged(ingest: Ingest) -> None:
    event_id = await made(ingest, on_unknown="hold")
    first = ScriptedProvider(never_after_handover)
    async with working(ingest.database, LocalBus(), first, "worker", attempt_timeout=timedelta(milliseconds=50)):
        await in_status(ingest, JobStatus.FAILED)
    assert (await row(ingest))["reason"] == "unknown_outcome"
    second = ScriptedProvider()
    await retry(ingest, event_id)
    async with working(ingest.database, LocalBus(), second, "worker"):
        await until(lambda: second.sent)
    assert (await row(ingest))["status"] == "SENT"
    assert [parcel.possible_duplicate for parcel in second.sent] == [True]


async def test_a_silence_that_no_attempt_tells_of_is_remembered_by_the_count(ingest: Ingest) -> None:
    event_id = await made(ingest)
    silence = effect_of(NoVerdict(handed_over=True), claim := await claimed(ingest), TERMS, random.Random(1))
    async with ingest.database.hot() as pg:
        await settle_without_attempt(pg, Channel.EMAIL, report_of(claim, silence))
    await settle(ingest, await claimed(ingest), Rejected())
    await retry(ingest, event_id)
    assert (await row(ingest))["unknowns"] == 1


async def test_a_job_nobody_can_have_got_is_not_flagged(ingest: Ingest) -> None:
    event_id = await made(ingest)
    await settle(ingest, await claimed(ingest), NoVerdict(handed_over=False))
    await settle(ingest, await claimed(ingest), Rejected())
    await retry(ingest, event_id)
    claim = await claimed(ingest)
    assert not claim.may_repeat
    assert claim.unknowns + claim.lost == 0


@pytest.mark.parametrize(
    ("late", "act", "ends"),
    [(Delivered(), "late", "SENT"), (Rejected(), "stale", "PENDING"), (Deferred(), "stale", "PENDING")],
)
async def test_of_what_a_claim_before_the_retry_still_says_only_a_delivered_counts(
    ingest: Ingest, late: Verdict, act: str, ends: str
) -> None:
    event_id = await made(ingest)
    first = await claimed(ingest)
    await end_leases(ingest.database)
    await settle(ingest, await claimed(ingest), Rejected())
    await retry(ingest, event_id)
    assert await settle(ingest, first, late) == act
    assert (await row(ingest))["status"] == ends


async def test_an_expired_job_needs_a_later_expiry(ingest: Ingest) -> None:
    event_id = await made(ingest)
    claim = await claimed(ingest)
    async with ingest.database.hot() as pg:
        await pg.execute("UPDATE outgoing SET expires_at = now()")
        await settle_if_claimed(pg, Channel.EMAIL, [report_of(claim, failed_unsent(claim, JobReason.EXPIRED))])
    code, told = await retry(ingest, event_id)
    assert (code, told["code"]) == (409, "job_expired")
    assert "extend" in told["detail"]
    assert (await row(ingest))["status"] == "FAILED"
    code, told = await retry(ingest, event_id, extend="2h")
    assert (code, told["status"]) == (200, "PENDING")
    left = datetime.fromisoformat(told["expires_at"]) - datetime.now(UTC)
    assert HOUR < left <= 2 * HOUR


async def test_an_expiry_is_an_instant_too_and_never_comes_nearer(ingest: Ingest) -> None:
    event_id = await failed(ingest)
    until_then = (datetime.now(UTC) + 30 * HOUR).replace(microsecond=0)
    _, told = await retry(ingest, event_id, extend=until_then.isoformat())
    assert datetime.fromisoformat(told["expires_at"]) == until_then
    await settle(ingest, await claimed(ingest), Rejected())
    _, told = await retry(ingest, event_id, extend="5m")
    assert datetime.fromisoformat(told["expires_at"]) == until_then


@pytest.mark.parametrize(
    ("options", "pointer", "code"),
    [
        ({"extend": "soon"}, "/extend", "until"),
        ({"extend": "2026-12-01T10:00:00"}, "/extend", "until"),
        ({"extend": "2020-01-01T10:00:00Z"}, "/extend", "expires_too_early"),
        ({"extend": "400d"}, "/extend", "too_far_ahead"),
        ({"extend": 5}, "/extend", "type"),
        ({"readdress": "yes"}, "/readdress", "type"),
        ({"readress": True}, "/readress", "unknown_field"),
    ],
)
async def test_a_mistake_names_its_field(ingest: Ingest, options: dict[str, Any], pointer: str, code: str) -> None:
    event_id = await failed(ingest)
    status, told = await retry(ingest, event_id, **options)
    assert (status, [(one["pointer"], one["code"]) for one in told["errors"]]) == (422, [(pointer, code)])
    assert (await row(ingest))["status"] == "FAILED"


async def test_a_job_whose_content_was_purged_says_so(ingest: Ingest) -> None:
    event_id = await failed(ingest)
    async with ingest.database.hot() as pg:
        await pg.execute("DELETE FROM content")
    code, told = await retry(ingest, event_id)
    assert (code, told["code"], told["detail"]) == (409, "content_gone", "The job's content was purged.")


async def address(ingest: Ingest) -> str:
    async with ingest.database.hot() as pg:
        found: str = await pg.fetchval("SELECT body ->> 'to_address' FROM content")
    return found


async def say_address(
    ingest: Ingest, email: str | None, at: datetime, mode: Mode = Mode.LIVE, who: str = "bob"
) -> None:
    """An event that gives ``email`` as the address of ``who``, received at ``at``."""
    recipient = f'{{"id":"{who}","email":"{email}"}}' if email else f'{{"id":"{who}"}}'
    await accept_events(ingest.database, [new_event(scope_id=ingest.scopes[mode], recipient=recipient)], at)


async def test_a_mail_is_readdressed_to_the_last_address_that_an_event_gave(ingest: Ingest) -> None:
    event_id = await failed(ingest)
    now = datetime.now(UTC)
    await say_address(ingest, "old@example.com", now - 2 * HOUR)
    await say_address(ingest, "new@example.com", now - HOUR)
    await say_address(ingest, None, now)
    await say_address(ingest, "other-half@example.com", now, Mode.TEST)
    await say_address(ingest, "somebody@example.com", now, who="somebody")
    status, _ = await retry(ingest, event_id, readdress=True)
    assert status == 200
    assert await address(ingest) == "new@example.com"
    provider = ScriptedProvider()
    async with working(ingest.database, LocalBus(), provider, "worker"):
        await until(lambda: provider.sent)
    parcel: Parcel = provider.sent[0]
    assert (parcel.content.to_address, parcel.content.subject) == ("new@example.com", "Hello")  # type: ignore[union-attr]


@pytest.mark.parametrize("email", [None, "bob@example.com"])
async def test_without_another_address_a_readdressed_retry_is_refused(ingest: Ingest, email: str | None) -> None:
    event_id = await failed(ingest)
    await say_address(ingest, email, datetime.now(UTC))
    status, told = await retry(ingest, event_id, readdress=True)
    assert (status, [(one["pointer"], one["code"]) for one in told["errors"]]) == (
        422,
        [("/readdress", "no_other_address")],
    )
    assert (await row(ingest))["status"] == "FAILED"
    assert await address(ingest) == "bob@example.com"


async def test_another_half_or_tenant_has_no_such_job(ingest: Ingest) -> None:
    theirs = await failed(ingest, scope_id=ingest.scopes[Mode.TEST])
    for event_id in (theirs, new_event_id()):
        status, told = await retry(ingest, event_id)
        assert (status, told["code"]) == (404, "job_not_found")
    assert (await row(ingest))["status"] == "FAILED"
    answer = await ingest.live.post(f"/api/v1/jobs/{format_event_id(theirs)}/retry")
    assert (answer.status_code, answer.json()["code"]) == (404, "job_not_found")
