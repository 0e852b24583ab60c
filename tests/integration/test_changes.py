"""GET /changes: what a product reads, and what it is told when it asks for what is not there."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.ingest.purger import Purger
from shared.channel import Channel
from shared.delivery.effect import effect_of
from shared.delivery.record import report_of
from shared.event import EventReason, EventStatus
from shared.ids import EventId, format_event_id, format_job_id
from shared.job import JobReason, JobStatus
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.cancel import cancel_events
from shared.store.claim import Claim
from shared.store.database import Database
from shared.store.expiry import expire_locked, lock_expired
from shared.store.inbox_delivery import enter_siblings
from shared.store.receipts import NewReceipt, ReceiptSource, apply_ripe, keep_if_new
from shared.store.routing import End, finish_if_queued
from shared.store.settle import AttemptRow, settle_if_claimed
from shared.tenant import Mode
from shared.verdict import VERDICT_WORDS, Deferred, Delivered, Rejected, Verdict
from tests.factories import accept_events, claim_jobs, create_jobs, end_leases, new_event, new_job
from tests.fakes.changes import change_mistakes, in_short, read_all, until_told
from tests.fakes.ingest import Ingest, running_ingest

TERMS = Terms(DEFAULT_POLICIES[Channel.EMAIL])
KEEP = timedelta(days=90)
REFUSED = {
    "after=1": ["/after"],
    "after=-1": ["/after"],
    "after=": ["/after"],
    "after=%D9%A1": ["/after"],
    "after=99999999999999999999": ["/after"],
    "after=0&after=0": ["/after"],
    "after=x&limit=0": ["/limit", "/after"],
    "limit=201": ["/limit"],
    "cursor=abc": ["/cursor"],
}
"""What is asked of a feed with nothing in it, and what is wrong with that."""


@pytest.fixture
async def ingest(database: Database) -> AsyncIterator[Ingest]:
    async with running_ingest(database) as running:
        yield running


async def mail(ingest: Ingest, mode: Mode = Mode.LIVE, **changes: Any) -> EventId:
    """An event for bob with a mail that is due."""
    scope_id = ingest.scopes[mode]
    (event_id,) = await accept_events(ingest.database, [new_event(scope_id=scope_id, ref="booking:bk_42")])
    await create_jobs(ingest.database, [new_job(scope_id=scope_id, event_id=event_id, **changes)])
    return event_id


async def settle(ingest: Ingest, verdict: Verdict) -> None:
    """Every due mail was tried and got ``verdict``."""
    await report(ingest, await claim_jobs(ingest.database, scopes=list(ingest.scopes.values())), verdict)


async def report(ingest: Ingest, claims: Sequence[Claim], verdict: Verdict) -> None:
    """``claims`` came to ``verdict``."""
    reports = []
    for claim in claims:
        word = VERDICT_WORDS[type(verdict)]
        row = AttemptRow(0, "smtp", word, "", None, None, None, datetime.now(UTC), timedelta(), False, False)
        reports.append(report_of(claim, effect_of(verdict, claim, TERMS, random.Random(1)), (row,)))
    async with ingest.database.hot() as pg:
        await settle_if_claimed(pg, Channel.EMAIL, reports)


async def receive(ingest: Ingest, event_id: EventId, cause: str) -> None:
    """Somebody reports ``cause`` about the event's mail."""
    receipt = NewReceipt(event_id, ReceiptSource.WEBHOOK, f"{cause} {event_id}", "bob@example.com", cause, None, "")
    async with ingest.database.hot() as pg:
        await keep_if_new(pg, receipt)
        await apply_ripe(pg, 10)


async def purge(database: Database) -> None:
    """Delete what was kept long enough."""
    await Purger(database, timedelta(minutes=10), timedelta(days=30), KEEP).sweep(asyncio.Event())


async def test_a_final_result_is_told_with_all_that_a_product_knows_it_by(ingest: Ingest) -> None:
    event_id = await mail(ingest)
    await settle(ingest, Rejected(reason=JobReason.REJECTED))
    (change,) = await until_told(ingest.live, 1)
    at = datetime.fromisoformat(change.pop("at"))
    assert abs(datetime.now(UTC) - at) < timedelta(minutes=5)
    assert change == {
        "seq": 1,
        "kind": "job",
        "status": "FAILED",
        "reason": "rejected",
        "meaning": "The provider refused it for good.",
        "recipient_id": "bob",
        "event_id": format_event_id(event_id),
        "event_type": "booking_confirmed",
        "ref": "booking:bk_42",
        "job_id": format_job_id(event_id, Channel.EMAIL),
        "channel": "email",
        "target": None,
    }
    told = (await ingest.live.get(f"/api/v1/events/{change['event_id']}")).json()
    assert told["jobs"][0]["id"] == change["job_id"]


async def test_what_becomes_of_a_mail_after_its_end_is_told_in_its_order(ingest: Ingest) -> None:
    event_id = await mail(ingest)
    await settle(ingest, Delivered())
    await receive(ingest, event_id, "complaint")
    await receive(ingest, event_id, "permanent-message")
    retried = await ingest.live.post(f"/api/v1/jobs/{format_job_id(event_id, Channel.EMAIL)}/retry")
    assert retried.status_code == 200, retried.text
    await settle(ingest, Delivered())
    assert in_short(await until_told(ingest.live, 5)) == [
        ("job", "email", "SENT", None),
        ("complaint", "email", None, None),
        ("job", "email", "FAILED", "bounced"),
        ("job", "email", "PENDING", None),
        ("job", "email", "SENT", None),
    ]
    assert await change_mistakes(ingest.database) == []


async def test_a_delivery_that_is_heard_of_late_is_told_after_the_end_it_undoes(ingest: Ingest) -> None:
    event_id = await mail(ingest)
    claims = await claim_jobs(ingest.database, scopes=list(ingest.scopes.values()))
    await end_leases(ingest.database)
    async with ingest.database.hot() as pg, pg.transaction():
        await finish_if_queued(pg, [End(event_id, EventStatus.ROUTED)])
        await cancel_events(pg, ingest.scopes[Mode.LIVE], [event_id])
    await report(ingest, claims, Delivered())
    assert in_short(await until_told(ingest.live, 2)) == [
        ("job", "email", "CANCELLED", None),
        ("job", "email", "SENT", None),
    ]
    assert await change_mistakes(ingest.database) == []


async def test_every_way_to_an_end_is_told(ingest: Ingest) -> None:
    scope_id, database = ingest.scopes[Mode.LIVE], ingest.database
    events = await accept_events(database, [new_event(scope_id=scope_id) for _ in range(5)])
    cancelled, expired, entered, unroutable, unrouted = events
    await create_jobs(
        database,
        [
            new_job(scope_id=scope_id, event_id=cancelled),
            new_job(scope_id=scope_id, event_id=expired, channel=Channel.PUSH, expires_in=-timedelta(seconds=1)),
            new_job(scope_id=scope_id, event_id=entered, channel=Channel.INAPP),
        ],
    )
    born = new_job(scope_id=scope_id, event_id=entered)
    refused = replace(born, status=JobStatus.SKIPPED, reason=JobReason.SUPPRESSED, body=None)
    await create_jobs(database, [refused])
    async with database.hot() as pg, pg.transaction():
        routed = [End(event_id, EventStatus.ROUTED) for event_id in (cancelled, expired, entered)]
        await finish_if_queued(pg, [*routed, End(unroutable, EventStatus.FAILED, EventReason.ROUTING_FAILED)])
        await cancel_events(pg, scope_id, [cancelled, unrouted])
        await expire_locked(pg, Channel.PUSH, await lock_expired(pg, Channel.PUSH, 10))
        await enter_siblings(pg, [entered])
    changes = await until_told(ingest.live, 6)
    told = {(one["event_id"], *short) for one, short in zip(changes, in_short(changes), strict=True)}
    assert told == {
        (format_event_id(cancelled), "job", "email", "CANCELLED", None),
        (format_event_id(expired), "job", "push", "FAILED", "expired"),
        (format_event_id(entered), "job", "inapp", "SENT", None),
        (format_event_id(entered), "job", "email", "SKIPPED", "suppressed"),
        (format_event_id(unroutable), "event", None, "FAILED", "routing_failed"),
        (format_event_id(unrouted), "event", None, "CANCELLED", None),
    }
    assert await change_mistakes(ingest.database) == []


async def test_what_is_not_final_is_not_told(ingest: Ingest) -> None:
    await mail(ingest)
    await settle(ingest, Deferred())
    assert await ingest.count("changes") == 0
    page = (await ingest.live.get("/api/v1/changes")).json()
    assert page == {"data": [], "next_cursor": None, "last_seq": 0}


async def test_halves_of_a_tenant_have_feeds_of_their_own(ingest: Ingest) -> None:
    live, test = await mail(ingest), await mail(ingest, Mode.TEST)
    await settle(ingest, Delivered())
    for client, event_id in ((ingest.live, live), (ingest.test, test)):
        (change,) = await until_told(client, 1)
        assert (change["seq"], change["event_id"]) == (1, format_event_id(event_id))


async def test_pages_join_without_a_gap_and_say_when_there_is_more(ingest: Ingest) -> None:
    for _ in range(7):
        await mail(ingest)
    await settle(ingest, Delivered())
    whole = await until_told(ingest.live, 7)
    for limit in (1, 3, 7):
        assert await read_all(ingest.live, limit=limit) == whole
    page = (await ingest.live.get("/api/v1/changes?after=2&limit=3")).json()
    assert ([one["seq"] for one in page["data"]], page["next_cursor"], page["last_seq"]) == ([3, 4, 5], "5", 7)
    assert (await ingest.live.get("/api/v1/changes?after=7")).json()["data"] == []


async def test_a_place_that_cannot_be_is_refused_by_its_name(ingest: Ingest) -> None:
    for query, pointers in REFUSED.items():
        answer = await ingest.live.get(f"/api/v1/changes?{query}")
        assert answer.status_code == 422, query
        assert [error["pointer"] for error in answer.json()["errors"]] == pointers, query


async def test_a_reader_who_was_away_for_too_long_is_told_where_the_feed_begins(ingest: Ingest) -> None:
    for turn in range(4):
        await mail(ingest)
        await settle(ingest, Delivered())
        await until_told(ingest.live, turn + 1)
    async with ingest.database.hot() as pg:
        # The second is younger than the third: nothing goes from the middle.
        await pg.execute(
            "UPDATE changes SET at = now() - $1::interval WHERE last_seq IN (1, 3)", KEEP + timedelta(days=1)
        )
    await purge(ingest.database)
    gone = await ingest.live.get("/api/v1/changes?after=0")
    assert (gone.status_code, gone.json()["code"]) == (410, "changes_gone")
    assert [(error["pointer"], error["code"]) for error in gone.json()["errors"]] == [("/after", "too_old")]
    assert "seq 2" in gone.json()["detail"]
    assert "after=1" in gone.json()["detail"]
    for query in ("", "?after=1"):
        page = (await ingest.live.get(f"/api/v1/changes{query}")).json()
        assert [one["seq"] for one in page["data"]] == [2, 3, 4]


async def test_a_feed_that_is_all_purged_goes_on_behind_its_last_number(ingest: Ingest) -> None:
    await mail(ingest)
    await settle(ingest, Delivered())
    await until_told(ingest.live, 1)
    async with ingest.database.hot() as pg:
        await pg.execute("UPDATE changes SET at = now() - $1::interval", KEEP + timedelta(days=1))
    await purge(ingest.database)
    assert await ingest.count("changes") == 0
    assert (await ingest.live.get("/api/v1/changes?after=1")).json()["data"] == []
    assert (await ingest.live.get("/api/v1/changes?after=0")).status_code == 410
    await mail(ingest)
    await settle(ingest, Delivered())
    assert [one["seq"] for one in await until_told(ingest.live, 1)] == [2]


async def test_what_is_told_of_an_event_outlives_the_event(ingest: Ingest) -> None:
    event_id = await mail(ingest)
    await settle(ingest, Delivered())
    (before,) = await until_told(ingest.live, 1)
    async with ingest.database.hot() as pg:
        await pg.execute("DELETE FROM events WHERE event_id = $1", event_id)
    (after,) = await read_all(ingest.live)
    assert after == before | {"event_type": None, "ref": None, "recipient_id": None}
