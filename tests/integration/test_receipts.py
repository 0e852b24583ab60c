"""Receipts: kept once, parked until their job is settled, applied once, and never more than they say."""

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from shared.channel import Channel
from shared.delivery.effect import effect_of, failed_unsent
from shared.delivery.record import report_of
from shared.ids import EventId, ScopeId, new_event_id
from shared.job import JobReason
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.claim import Claim
from shared.store.database import Database
from shared.store.job_lists import JobKey
from shared.store.receipts import (
    MOST_OF_A_JOB,
    Kept,
    NewReceipt,
    ReceiptSource,
    apply_ripe,
    keep_if_new,
    receipts_of_event,
)
from shared.store.replay import ReplayOptions, ReplayResult, replay_if_failed
from shared.store.settle import AttemptRow, settle_if_claimed
from shared.store.suppressions import list_suppressions
from shared.verdict import Delivered
from tests.factories import accept_events, claim_jobs, create_jobs, new_event, new_job
from tests.fakes.ledger import ledger_mistakes

TERMS = Terms(DEFAULT_POLICIES[Channel.EMAIL])
BOB = "bob@example.com"


def bounce(event_id: EventId, **changes: object) -> NewReceipt:
    fields: dict[str, object] = {
        "source": ReceiptSource.LISTENER,
        "provider_id": "<dsn-1@relay.example>",
        "address": BOB,
        "cause": "permanent-recipient",
        "code": "5.1.1",
        "detail": "550 5.1.1 no such user",
    }
    return NewReceipt(event_id, **(fields | changes))  # type: ignore[arg-type]


async def keep(database: Database, receipt: NewReceipt) -> Kept:
    async with database.hot() as pg:
        return await keep_if_new(pg, receipt)


async def apply(database: Database) -> list[str]:
    async with database.hot() as pg:
        return [one.effect for one in await apply_ripe(pg, 100)]


async def claimed(database: Database, **changes: object) -> Claim:
    event = new_event(scope_id=int(str(changes.get("scope_id", 1))))
    await accept_events(database, [event])
    await create_jobs(database, [new_job(event_id=event.event_id, **changes)])  # type: ignore[arg-type]
    (claim,) = await claim_jobs(database, scopes=(int(str(changes.get("scope_id", 1))),))
    return claim


async def deliver(database: Database, claim: Claim) -> str:
    row = AttemptRow(
        0, "smtp", "delivered", "", "250", None, "x", datetime.now(UTC), timedelta(seconds=1), False, False
    )
    report = report_of(claim, effect_of(Delivered(), claim, TERMS, random.Random(1)), (row,))
    async with database.hot() as pg:
        (settled,) = await settle_if_claimed(pg, Channel.EMAIL, [report])
    return settled.act


async def sent(database: Database, **changes: object) -> Claim:
    claim = await claimed(database, **changes)
    assert await deliver(database, claim) == "applied"
    return claim


async def states(database: Database) -> Sequence[tuple[object, ...]]:
    async with database.hot() as pg:
        return [tuple(row) for row in await pg.fetch("SELECT status, reason FROM outgoing ORDER BY job_id")]


async def suppressed(database: Database, scope_id: int = 1) -> list[tuple[str, str]]:
    async with database.hot() as pg:
        return [(one.address, one.reason) for one in await list_suppressions(pg, ScopeId(scope_id), limit=50)]


async def jobs_count_right(database: Database) -> bool:
    # Events are not routed here, and so are counted where they stand.
    return not [one for one in await ledger_mistakes(database) if one[1] != "event"]


async def test_a_hard_bounce_after_sent_fails_the_job_and_suppresses_the_address_for_that_scope(
    database: Database,
) -> None:
    claim = await sent(database, to_address="Bob@Example.com")
    await sent(database, scope_id=2)
    assert await keep(database, bounce(claim.event_id)) is Kept.NEW
    assert await apply(database) == ["bounced_suppressed"]
    assert await states(database) == [("FAILED", "bounced"), ("SENT", "")]
    assert await suppressed(database) == [(BOB, "bounced")]
    assert await suppressed(database, 2) == []
    assert await jobs_count_right(database)
    assert await apply(database) == []


async def test_a_bounce_that_comes_before_its_job_is_settled_waits_for_it(database: Database) -> None:
    claim = await claimed(database)
    assert await keep(database, bounce(claim.event_id)) is Kept.NEW
    assert await apply(database) == []
    assert await states(database) == [("PENDING", "")]
    await deliver(database, claim)
    assert await apply(database) == ["bounced_suppressed"]
    assert await states(database) == [("FAILED", "bounced")]
    assert await jobs_count_right(database)


async def test_the_same_report_twice_is_one_receipt(database: Database) -> None:
    claim = await sent(database)
    assert [await keep(database, bounce(claim.event_id)) for _ in range(2)] == [Kept.NEW, Kept.KNOWN]
    assert await keep(database, bounce(claim.event_id, source=ReceiptSource.FILE)) is Kept.NEW
    assert await keep(database, bounce(new_event_id())) is Kept.NO_JOB
    assert await apply(database) == ["bounced_suppressed", "bounced_suppressed"]
    assert await suppressed(database) == [(BOB, "bounced")]


async def test_a_flood_of_reports_fills_no_table_and_keeps_out_no_bounce_of_the_one_written_to(
    database: Database,
) -> None:
    claim = await claimed(database)
    other = await sent(database)
    flood = [
        await keep(database, bounce(claim.event_id, provider_id=f"<{number}@x.example>", address="eve@example.com"))
        for number in range(MOST_OF_A_JOB + 5)
    ]
    assert flood == [Kept.NEW] * MOST_OF_A_JOB + [Kept.TOO_MANY] * 5
    again = bounce(claim.event_id, provider_id="<1@x.example>", address="eve@example.com")
    assert await keep(database, again) is Kept.KNOWN
    mine = [await keep(database, bounce(claim.event_id, provider_id=f"<{n}@y.example>")) for n in range(30)]
    assert mine == [Kept.NEW] * MOST_OF_A_JOB + [Kept.TOO_MANY] * 10
    assert await keep(database, bounce(other.event_id)) is Kept.NEW
    await deliver(database, claim)
    await apply(database)
    assert await suppressed(database) == [(BOB, "bounced")]


async def test_only_a_dead_address_that_we_wrote_to_is_suppressed(database: Database) -> None:
    for cause, address in (
        ("permanent-message", BOB),
        ("transient", BOB),
        ("sender-side", BOB),
        ("permanent-recipient", "hidden.target@elsewhere.example"),
        ("permanent-recipient", ""),
    ):
        claim = await sent(database)
        await keep(database, bounce(claim.event_id, provider_id=cause + address, cause=cause, address=address))
    assert await apply(database) == ["bounced"] * 5
    assert await states(database) == [("FAILED", "bounced")] * 5
    assert await suppressed(database) == []
    assert await jobs_count_right(database)


async def test_a_complaint_suppresses_and_leaves_the_job_alone(database: Database) -> None:
    claim = await sent(database)
    await keep(database, bounce(claim.event_id, cause="complaint", address="", code=None))
    assert await apply(database) == ["suppressed"]
    assert await states(database) == [("SENT", "")]
    assert await suppressed(database) == [(BOB, "complaint")]


async def test_a_job_that_failed_already_keeps_its_reason(database: Database) -> None:
    claim = await claimed(database)
    async with database.hot() as pg:
        await settle_if_claimed(pg, Channel.EMAIL, [report_of(claim, failed_unsent(claim, JobReason.UNKNOWN_OUTCOME))])
    await keep(database, bounce(claim.event_id))
    assert await apply(database) == ["suppressed"]
    assert await states(database) == [("FAILED", "unknown_outcome")]


async def test_a_report_about_the_address_before_says_nothing_of_a_readdressed_mail(database: Database) -> None:
    claim = await sent(database)
    await keep(database, bounce(claim.event_id))
    assert await apply(database) == ["bounced_suppressed"]
    key = JobKey(Channel.EMAIL, claim.job_id, JobReason.BOUNCED)
    await accept_events(database, [new_event(recipient='{"id":"bob","email":"new@example.com"}')])
    async with database.hot() as pg:
        (replayed,) = await replay_if_failed(pg, ScopeId(1), [key], ReplayOptions(readdress=True))
    assert replayed.result is ReplayResult.RETRIED
    (again,) = await claim_jobs(database)
    assert await deliver(database, again) == "applied"
    for number, kind in ((2, "permanent-recipient"), (3, "complaint")):
        await keep(database, bounce(claim.event_id, provider_id=f"<dsn-{number}@relay.example>", cause=kind))
    assert await apply(database) == ["none", "none"]
    assert await states(database) == [("SENT", "")]
    assert await suppressed(database) == [(BOB, "bounced")]
    await keep(database, bounce(claim.event_id, provider_id="<dsn-4@relay.example>", address="new@example.com"))
    assert await apply(database) == ["bounced_suppressed"]
    assert await states(database) == [("FAILED", "bounced")]


async def test_a_late_delivered_does_not_win_over_a_bounce(database: Database) -> None:
    claim = await sent(database)
    await keep(database, bounce(claim.event_id))
    await apply(database)
    assert await deliver(database, claim) == "stale"
    assert await states(database) == [("FAILED", "bounced")]


async def test_a_receipt_that_waited_for_seven_days_says_nothing_any_more(database: Database) -> None:
    claim = await claimed(database)
    await keep(database, bounce(claim.event_id))
    async with database.hot() as pg:
        await pg.execute("UPDATE receipts SET received_at = now() - interval '8 days'")
    assert await apply(database) == ["too_old"]
    assert await states(database) == [("PENDING", "")]
    assert await suppressed(database) == []


async def test_receipts_of_a_job_that_was_purged_end_without_harm(database: Database) -> None:
    claim = await sent(database)
    await keep(database, bounce(claim.event_id))
    async with database.hot() as pg:
        await pg.execute("DELETE FROM content")
        await pg.execute("DELETE FROM outgoing")
    assert await apply(database) == ["none"]
    assert await suppressed(database) == []


async def test_processes_that_apply_at_once_apply_each_receipt_once(database: Database) -> None:
    for number in range(30):
        claim = await sent(database)
        await keep(database, bounce(claim.event_id, provider_id=f"<{number}@relay.example>"))
    done = await asyncio.gather(*(apply(database) for _ in range(4)))
    while more := await apply(database):
        done.append(more)
    assert sum(len(one) for one in done) == 30
    assert await states(database) == [("FAILED", "bounced")] * 30
    assert await jobs_count_right(database)


async def test_receipts_are_told_beside_their_job(database: Database) -> None:
    claim = await sent(database)
    await keep(database, bounce(claim.event_id))
    async with database.hot() as pg:
        (before,) = (await receipts_of_event(pg, ScopeId(1), claim.event_id))[Channel.EMAIL]
        await apply_ripe(pg, 10)
        (after,) = (await receipts_of_event(pg, ScopeId(1), claim.event_id))[Channel.EMAIL]
        assert await receipts_of_event(pg, ScopeId(2), claim.event_id) == {}
    assert (before.effect, before.applied_at) == ("", None)
    assert (after.kind, after.cause, after.code, after.effect) == (
        "bounce",
        "permanent-recipient",
        "5.1.1",
        "bounced_suppressed",
    )
    assert after.applied_at is not None
