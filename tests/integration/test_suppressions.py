"""Suppressions: who is put on the list, by what, and for whom it counts."""

import asyncio
import random
from datetime import UTC, datetime, timedelta

from services.email.provider import EmailProvider
from services.email.relays import OneRelay
from services.email.suppressed import SuppressionList
from shared.channel import Channel
from shared.delivery.effect import effect_of
from shared.delivery.provider import Ended, Folded, Parcel
from shared.delivery.record import report_of, rows_of
from shared.ids import ScopeId
from shared.job import JobReason, JobStatus
from shared.relay import Relay
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.claim import Claim
from shared.store.content import decode_content
from shared.store.database import Database
from shared.store.settle import Report, settle_if_claimed
from shared.store.suppressions import (
    NewSuppression,
    SuppressionReason,
    SuppressionSource,
    list_suppressions,
    remove_suppression,
    suppress,
    suppressed_among,
    suppressed_of_scopes,
)
from shared.verdict import Delivered, NoVerdict, Rejected, Verdict
from tests.factories import claim_jobs, create_jobs, end_leases, new_job, scoped_tenant
from tests.fakes.parcels import email_parcel
from tests.fakes.smtp import SmtpSink

TERMS = Terms(DEFAULT_POLICIES[Channel.EMAIL])
ONE, OTHER = ScopeId(1), ScopeId(2)
DEAD = Rejected(target_dead=True, code="550", error="at rcpt: 5.1.1 nobody of that name")


def report(claim: Claim, verdict: Verdict) -> Report:
    assert claim.body is not None
    content = decode_content(Channel.EMAIL, claim.body)
    parcel = Parcel(
        claim.job_id,
        claim.event_id,
        claim.scope_id,
        Channel.EMAIL,
        "bob",
        content,
        scoped_tenant(claim.scope_id),
        attempt=1,
        possible_duplicate=False,
    )
    rows = rows_of(parcel, "smtp", verdict, datetime.now(UTC), timedelta(seconds=1))
    return report_of(claim, effect_of(verdict, claim, TERMS, random.Random(1)), rows)


async def settle(database: Database, *reports: Report) -> list[str]:
    async with database.hot() as pg:
        return [one.act for one in await settle_if_claimed(pg, Channel.EMAIL, reports)]


async def suppressed(database: Database, scope_id: ScopeId = ONE) -> list[tuple[str, str, str, str | None]]:
    async with database.hot() as pg:
        listed = await list_suppressions(pg, scope_id, limit=100)
    return [(one.address, one.reason, one.source, one.code) for one in listed]


async def test_a_dead_address_is_suppressed_in_its_scope_with_the_verdict(database: Database) -> None:
    await create_jobs(database, [new_job(to_address="Bob@Example.com"), new_job(to_address="bob@example.COM")])
    await create_jobs(database, [new_job(to_address="bob@example.com", scope_id=2)])
    claims = await claim_jobs(database)
    assert await settle(database, *(report(one, DEAD) for one in claims)) == ["applied", "applied"]
    assert await suppressed(database) == [("bob@example.com", "rejected", "reply", "550")]
    assert await suppressed(database, OTHER) == []


async def test_a_rejection_that_is_not_about_the_address_suppresses_nobody(database: Database) -> None:
    await create_jobs(database, [new_job(), new_job()])
    first, _ = await claim_jobs(database)
    await settle(database, report(first, Rejected(code="554", error="at eod: 5.7.1 looks like spam")))
    assert await suppressed(database) == []


async def test_a_stale_report_suppresses_nobody(database: Database) -> None:
    await create_jobs(database, [new_job()])
    (first,) = await claim_jobs(database)
    await end_leases(database)
    await claim_jobs(database)
    assert await settle(database, report(first, DEAD)) == ["stale"]
    assert await suppressed(database) == []


async def test_an_address_that_is_suppressed_already_keeps_its_reason(database: Database) -> None:
    async with database.hot() as pg:
        by_hand = NewSuppression(" Bob@example.com ", SuppressionReason.MANUAL, SuppressionSource.API)
        await suppress(pg, ONE, Channel.EMAIL, by_hand)
    await create_jobs(database, [new_job()])
    (claim,) = await claim_jobs(database)
    await settle(database, report(claim, DEAD))
    assert await suppressed(database) == [("bob@example.com", "manual", "api", None)]


async def test_asking_for_many_addresses_tells_those_that_are_suppressed(database: Database) -> None:
    new = NewSuppression("bob@example.com", SuppressionReason.COMPLAINT, SuppressionSource.RECEIPT)
    async with database.hot() as pg:
        await suppress(pg, ONE, Channel.EMAIL, new)
        asked = ["BOB@example.com", "bob@example.com", "carol@example.com"]
        assert await suppressed_among(pg, ONE, Channel.EMAIL, asked) == {"BOB@example.com", "bob@example.com"}
        assert await suppressed_among(pg, OTHER, Channel.EMAIL, asked) == set()
        pairs = [(ONE, "bob@example.com"), (ONE, "carol@example.com"), (OTHER, "bob@example.com")]
        assert await suppressed_of_scopes(pg, Channel.EMAIL, pairs) == {(ONE, "bob@example.com")}


async def test_a_suppression_said_again_is_one_and_removed_it_is_gone(database: Database) -> None:
    async with database.hot() as pg:
        for reason in (SuppressionReason.BOUNCED, SuppressionReason.MANUAL):
            await suppress(pg, ONE, Channel.EMAIL, NewSuppression("a@b.example", reason, SuppressionSource.COMMAND))
        (one,) = await list_suppressions(pg, ONE, limit=10)
        assert one.reason is SuppressionReason.MANUAL
        assert await remove_suppression(pg, OTHER, Channel.EMAIL, "a@b.example") is False
        assert await remove_suppression(pg, ONE, Channel.EMAIL, "A@b.example") is True
        assert await remove_suppression(pg, ONE, Channel.EMAIL, "a@b.example") is False


async def test_lists_are_paged_and_narrowed(database: Database) -> None:
    async with database.hot() as pg:
        for number in range(5):
            new = NewSuppression(f"p{number}@b.example", SuppressionReason.MANUAL, SuppressionSource.API)
            await suppress(pg, ONE, Channel.EMAIL, new)
        first = await list_suppressions(pg, ONE, limit=2)
        rest = await list_suppressions(pg, ONE, limit=9, before=first[-1].suppression_id)
        assert [one.address[:2] for one in (*first, *rest)] == ["p4", "p3", "p2", "p1", "p0"]
        (only,) = await list_suppressions(pg, ONE, limit=9, address="P3@b.example")
        assert only.address == "p3@b.example"
        assert await list_suppressions(pg, ONE, limit=9, reason=SuppressionReason.BOUNCED) == []


async def test_an_address_that_was_suppressed_since_it_was_routed_gets_no_mail(database: Database) -> None:
    sink = await SmtpSink().start()
    provider = EmailProvider(
        OneRelay(Relay("127.0.0.1", sink.port)),
        pool_size=4,
        attempt_timeout=timedelta(seconds=20),
        suppressions=SuppressionList(database, timedelta(seconds=10)),
    )
    async with database.hot() as pg:
        new = NewSuppression("dead@example.com", SuppressionReason.COMPLAINT, SuppressionSource.RECEIPT)
        await suppress(pg, ONE, Channel.EMAIL, new)
    addresses = ["Dead@example.com", "alive@example.com"] * 10
    outcomes = await asyncio.gather(*(provider.send(email_parcel(to_address=address)) for address in addresses))
    skipped = Folded(Ended(JobStatus.SKIPPED, JobReason.SUPPRESSED), (), delivered_any=False)
    assert outcomes[::2] == [skipped] * 10
    assert all(isinstance(outcome, Delivered) for outcome in outcomes[1::2])
    assert {mail.envelope_to for mail in sink.mails} == {("alive@example.com",)}
    await provider.close()
    await sink.close()


async def test_a_list_that_cannot_be_read_stops_the_mail_and_not_the_job(database: Database) -> None:
    nowhere = Database("postgresql://nobody@127.0.0.1:1/nothing", within=timedelta(seconds=1))
    provider = EmailProvider(
        OneRelay(Relay("127.0.0.1", 1)),
        pool_size=1,
        attempt_timeout=timedelta(seconds=20),
        suppressions=SuppressionList(nowhere, timedelta(seconds=1)),
    )
    outcome = await provider.send(email_parcel())
    assert isinstance(outcome, NoVerdict)
    assert (outcome.handed_over, outcome.code) == (False, "store_unavailable")
    await nowhere.close()
