"""Cancelling: what no worker has in hand is not sent, and the answer says honestly what was too late."""

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.ingest import cancel
from services.router.consumer import Consumer
from shared.broker.local import LocalBus
from shared.broker.messages import Announcement
from shared.channel import Channel
from shared.delivery.effect import effect_of, failed_unsent, released
from shared.delivery.record import report_of
from shared.event import EventStatus
from shared.ids import EventId, format_event_id, format_job_id, new_event_id
from shared.job import JobReason
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.announcing import promote_due
from shared.store.claim import Claim
from shared.store.database import Database
from shared.store.routing import End, finish_if_queued, lock_queued
from shared.store.settle import AttemptRow, settle_if_claimed
from shared.tenant import Mode
from shared.verdict import VERDICT_WORDS, Deferred, Delivered, NoVerdict, Rejected, Verdict
from tests.factories import accept_events, claim_jobs, create_jobs, end_leases, new_event, new_job
from tests.fakes.ingest import Ingest, running_ingest
from tests.fakes.ledger import ledger_mistakes
from tests.fakes.product import eventually

SOON = timedelta(hours=1)
BOTH = (Channel.EMAIL, Channel.INAPP)


@pytest.fixture
async def ingest(database: Database) -> AsyncIterator[Ingest]:
    async with running_ingest(database) as running:
        yield running
    assert await ledger_mistakes(database) == []


async def event(ingest: Ingest, **changes: Any) -> EventId:
    """An event in the live scope, as it was accepted."""
    (event_id,) = await accept_events(
        ingest.database, [new_event(**{"scope_id": ingest.scopes[Mode.LIVE], "ref": "booking:1", **changes})]
    )
    return event_id


async def routed(ingest: Ingest, *channels: Channel, **changes: Any) -> EventId:
    """A routed event with a due job on each of ``channels``."""
    event_id = await event(ingest, **changes)
    scope_id = changes.get("scope_id", ingest.scopes[Mode.LIVE])
    for channel in channels:
        await create_jobs(ingest.database, [new_job(channel=channel, scope_id=scope_id, event_id=event_id)])
    async with ingest.database.hot() as pg:
        await finish_if_queued(pg, [End(event_id, EventStatus.ROUTED)])
    return event_id


async def consume(ingest: Ingest, event_id: EventId) -> None:
    """The router is told of the event."""
    await Consumer(ingest.database, LocalBus(), ingest.tenants).consume(Announcement((event_id,)))


async def post(ingest: Ingest, event_id: EventId) -> tuple[int, dict[str, Any]]:
    answer = await ingest.live.post(f"/api/v1/events/{format_event_id(event_id)}/cancel")
    return answer.status_code, answer.json()


async def post_ref(ingest: Ingest, **fields: Any) -> dict[str, Any]:
    answer = await ingest.live.post("/api/v1/events/cancel", json={"ref": "booking:1"} | fields)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def states(ingest: Ingest) -> list[tuple[str, str]]:
    async with ingest.database.hot() as pg:
        rows = await pg.fetch("SELECT channel, status FROM outgoing ORDER BY channel")
    return [(row[0], row[1]) for row in rows]


async def claimed(ingest: Ingest) -> Claim:
    (one,) = await claim_jobs(ingest.database, scopes=[ingest.scopes[Mode.LIVE]])
    return one


async def settle(ingest: Ingest, claim: Claim, verdict: Verdict, target_id: int = 0) -> str:
    """What the report of ``claim``, one attempt that ended in ``verdict``, did."""
    word = VERDICT_WORDS[type(verdict)]
    effect = effect_of(verdict, claim, Terms(DEFAULT_POLICIES[Channel.EMAIL]), random.Random(1))
    row = AttemptRow(target_id, "smtp", word, "", None, None, None, datetime.now(UTC), timedelta(), False, False)
    async with ingest.database.hot() as pg:
        (settled,) = await settle_if_claimed(pg, Channel.EMAIL, [report_of(claim, effect, (row,))])
    return settled.act


async def test_what_nobody_has_in_hand_is_cancelled_channel_by_channel(ingest: Ingest) -> None:
    event_id = await routed(ingest, *BOTH)
    status, told = await post(ingest, event_id)
    assert (status, told["status"], told["outcome"]) == (200, "ROUTED", "cancelled")
    assert told["jobs"] == [
        {
            "id": format_job_id(event_id, channel),
            "channel": channel,
            "result": "cancelled",
            "status": "CANCELLED",
            "reason": None,
            "may_have_been_sent": False,
        }
        for channel in BOTH
    ]
    assert await claim_jobs(ingest.database, scopes=[ingest.scopes[Mode.LIVE]]) == []
    shown = (await ingest.live.get(f"/api/v1/events/{told['id']}")).json()
    assert shown["outcome"] == "cancelled"
    assert all(job["finished_at"] is not None for job in shown["jobs"])


async def test_cancelling_again_gets_the_same_answer(ingest: Ingest) -> None:
    event_id = await routed(ingest, *BOTH)
    assert await post(ingest, event_id) == await post(ingest, event_id)


@pytest.mark.parametrize("send_at", [None, datetime.now(UTC) + SOON])
async def test_an_event_that_was_not_routed_yet_never_will_be(ingest: Ingest, send_at: datetime | None) -> None:
    event_id = await event(ingest, send_at=send_at)
    status, told = await post(ingest, event_id)
    assert (status, told["status"], told["outcome"], told["jobs"]) == (200, "CANCELLED", "cancelled", [])
    async with ingest.database.hot() as pg:
        assert await promote_due(pg, 10, datetime.now(UTC) + 2 * SOON) == []
    # A message about it may still be in the broker, or come twice.
    await consume(ingest, event_id)
    await Consumer(ingest.database, LocalBus(), ingest.tenants).consume(Announcement((event_id,), again=True))
    assert await ingest.count("outgoing") == 0
    assert (await post(ingest, event_id))[0] == 200


async def test_what_a_worker_has_in_hand_is_left_to_it(ingest: Ingest) -> None:
    event_id = await routed(ingest, *BOTH)
    claim = await claimed(ingest)
    status, told = await post(ingest, event_id)
    assert status == 200
    assert [(job["result"], job["status"]) for job in told["jobs"]] == [
        ("claimed", "PENDING"),
        ("cancelled", "CANCELLED"),
    ]
    assert told["jobs"][0]["may_have_been_sent"]
    assert await settle(ingest, claim, Delivered()) == "applied"
    assert await states(ingest) == [("email", "SENT"), ("inapp", "CANCELLED")]


@pytest.mark.parametrize(("verdict", "ends"), [(None, "PENDING"), (Delivered(), "SENT"), (Rejected(), "FAILED")])
async def test_it_is_a_409_when_it_is_too_late_for_everything(
    ingest: Ingest, verdict: Verdict | None, ends: str
) -> None:
    event_id = await routed(ingest, Channel.EMAIL)
    claim = await claimed(ingest)
    if verdict is not None:
        await settle(ingest, claim, verdict)
    status, told = await post(ingest, event_id)
    assert (status, told["code"]) == (409, "not_cancellable")
    assert ("being sent" if verdict is None else f"email is {ends}") in told["detail"]
    assert await states(ingest) == [("email", ends)]


async def test_a_released_job_can_be_cancelled(ingest: Ingest) -> None:
    event_id = await routed(ingest, Channel.EMAIL)
    claim = await claimed(ingest)
    async with ingest.database.hot() as pg:
        await settle_if_claimed(pg, Channel.EMAIL, [report_of(claim, released(claim))])
    assert not (await post(ingest, event_id))[1]["jobs"][0]["may_have_been_sent"]


@pytest.mark.parametrize(
    ("late", "act", "ends"),
    [
        (Delivered(), "late", "SENT"),
        (Rejected(), "stale", "CANCELLED"),
        (Deferred(), "stale", "CANCELLED"),
        (NoVerdict(handed_over=True), "stale", "CANCELLED"),
    ],
)
async def test_a_claim_that_vanished_may_have_sent_it_and_only_its_delivered_still_counts(
    ingest: Ingest, late: Verdict, act: str, ends: str
) -> None:
    event_id = await routed(ingest, Channel.EMAIL)
    claim = await claimed(ingest)
    await end_leases(ingest.database)
    _, told = await post(ingest, event_id)
    (job,) = told["jobs"]
    assert (job["result"], job["may_have_been_sent"]) == ("cancelled", True)
    (shown,) = (await ingest.live.get(f"/api/v1/events/{told['id']}")).json()["jobs"]
    assert [attempt["verdict"] for attempt in shown["attempts"]] == ["lost"]
    assert await ledger_mistakes(ingest.database) == []
    assert await settle(ingest, claim, late) == act
    assert await states(ingest) == [("email", ends)]
    assert await settle(ingest, claim, late) == "stale"


async def test_an_answer_that_never_came_may_have_been_a_yes(ingest: Ingest) -> None:
    event_id = await routed(ingest, Channel.EMAIL)
    await settle(ingest, await claimed(ingest), NoVerdict(handed_over=True))
    assert (await post(ingest, event_id))[1]["jobs"][0]["may_have_been_sent"]


async def test_a_silence_before_the_hand_over_sent_nothing(ingest: Ingest) -> None:
    event_id = await routed(ingest, Channel.EMAIL)
    await settle(ingest, await claimed(ingest), NoVerdict(handed_over=False))
    assert not (await post(ingest, event_id))[1]["jobs"][0]["may_have_been_sent"]


async def test_a_target_that_has_it_already_is_said(ingest: Ingest) -> None:
    event_id = await routed(ingest, Channel.EMAIL)
    await settle(ingest, await claimed(ingest), Deferred(), target_id=7)
    async with ingest.database.hot() as pg:
        await pg.execute("UPDATE attempts SET verdict = 'delivered'")
    assert (await post(ingest, event_id))[1]["jobs"][0]["may_have_been_sent"]


async def test_another_half_or_tenant_has_no_such_event(ingest: Ingest) -> None:
    theirs = await routed(ingest, Channel.EMAIL, scope_id=ingest.scopes[Mode.TEST])
    for event_id in (theirs, new_event_id()):
        status, told = await post(ingest, event_id)
        assert (status, told["code"]) == (404, "event_not_found")
    assert (await post_ref(ingest))["events"] == 0
    assert await states(ingest) == [("email", "PENDING")]


async def test_a_misspelt_id_is_a_404_and_a_body_that_would_be_ignored_a_422(ingest: Ingest) -> None:
    answer = await ingest.live.post("/api/v1/events/evt_1/cancel")
    assert (answer.status_code, answer.json()["code"]) == (404, "event_not_found")
    event_id = await routed(ingest, Channel.EMAIL)
    answer = await ingest.live.post(f"/api/v1/events/{format_event_id(event_id)}/cancel", json={"dry_run": True})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/dry_run")
    assert await states(ingest) == [("email", "PENDING")]
    answer = await ingest.live.post(f"/api/v1/events/{format_event_id(event_id)}/cancel", json={})
    assert answer.status_code == 200


async def test_a_ref_cancels_all_its_events_and_no_others(ingest: Ingest) -> None:
    scheduled = await event(ingest, send_at=datetime.now(UTC) + SOON)
    open_one = await routed(ingest, *BOTH)
    other_type = await event(ingest, event_type="reminder")
    other_ref = await event(ingest, ref="booking:2")
    wanted = {"ref": "booking:1", "event_type": "booking_confirmed"}
    counted = await post_ref(ingest, **wanted, dry_run=True)
    assert counted == {
        "dry_run": True,
        "events": 2,
        "cancelled_jobs": 2,
        "claimed_jobs": 0,
        "more": False,
        "data": [],
    }
    told = await post_ref(ingest, **wanted)
    assert (told["dry_run"], told["events"], told["cancelled_jobs"], told["more"]) == (False, 2, 2, False)
    assert {one["id"]: one["outcome"] for one in told["data"]} == {
        format_event_id(scheduled): "cancelled",
        format_event_id(open_one): "cancelled",
    }
    assert (await post_ref(ingest, **wanted))["events"] == 0
    async with ingest.database.hot() as pg:
        left = await pg.fetch("SELECT event_id FROM events WHERE status = 'QUEUED'")
    assert {row[0] for row in left} == {other_type, other_ref}


async def test_a_dry_run_changes_nothing_and_counts_what_is_in_hand(ingest: Ingest) -> None:
    await routed(ingest, *BOTH)
    await claimed(ingest)
    counted = await post_ref(ingest, dry_run=True)
    assert (counted["cancelled_jobs"], counted["claimed_jobs"]) == (1, 1)
    assert await states(ingest) == [("email", "PENDING"), ("inapp", "PENDING")]


async def test_a_ref_for_whose_events_it_is_too_late_is_a_409_and_one_that_nobody_used_is_not(ingest: Ingest) -> None:
    assert (await post_ref(ingest))["events"] == 0
    await routed(ingest, Channel.EMAIL)
    claim = await claimed(ingest)
    for _ in ("in hand", "sent"):
        answer = await ingest.live.post("/api/v1/events/cancel", json={"ref": "booking:1"})
        assert (answer.status_code, answer.json()["code"]) == (409, "not_cancellable")
        await settle(ingest, claim, Delivered())


async def test_a_ref_with_many_events_is_cancelled_portion_by_portion(
    ingest: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancel, "MOST_AT_ONCE", 4)
    monkeypatch.setattr(cancel, "PORTION", 3)
    made = [await event(ingest) for _ in range(10)]
    seen = []
    for count, more in ((4, True), (4, True), (2, False)):
        told = await post_ref(ingest)
        assert (told["events"], told["more"]) == (count, more)
        seen += [one["id"] for one in told["data"]]
    assert sorted(seen) == sorted(format_event_id(event_id) for event_id in made)


async def test_a_body_that_does_not_fit_names_every_field(ingest: Ingest) -> None:
    answer = await ingest.live.post("/api/v1/events/cancel", json={"dry_run": "yes", "reff": "booking:1"})
    assert answer.status_code == 422
    assert {error["pointer"] for error in answer.json()["errors"]} == {"/ref", "/reff", "/dry_run"}


async def test_a_cancel_waits_for_the_router_that_has_the_event_and_then_finds_its_jobs(ingest: Ingest) -> None:
    event_id = await event(ingest)
    consumer = Consumer(ingest.database, LocalBus(), ingest.tenants)
    async with ingest.database.hot() as pg, pg.transaction():
        # Where the router stands when it has locked its events: the second router waits, and the cancel behind it.
        await lock_queued(pg, [event_id])
        routing = asyncio.create_task(consumer.consume(Announcement((event_id,))))
        await waiting(ingest, 1)
        cancelling = asyncio.create_task(post(ingest, event_id))
        await waiting(ingest, 2)
    status, told = await cancelling
    await routing
    assert status == 200
    assert (told["status"], [job["result"] for job in told["jobs"]]) == ("ROUTED", ["cancelled"])
    assert await states(ingest) == [("inapp", "CANCELLED")]


async def test_a_router_waits_for_the_cancel_that_has_the_event_and_then_leaves_it_alone(ingest: Ingest) -> None:
    event_id = await event(ingest)
    consumer = Consumer(ingest.database, LocalBus(), ingest.tenants)
    async with ingest.database.hot() as pg, pg.transaction():
        await lock_queued(pg, [event_id])
        cancelling = asyncio.create_task(post(ingest, event_id))
        await waiting(ingest, 1)
        routing = asyncio.create_task(consumer.consume(Announcement((event_id,))))
        await waiting(ingest, 2)
    assert (await cancelling)[0] == 200
    await routing
    assert await states(ingest) == []
    async with ingest.database.hot() as pg:
        assert await pg.fetchval("SELECT status FROM events") == "CANCELLED"


async def test_cancels_claims_routers_and_settlers_at_once_neither_deadlock_nor_miscount(ingest: Ingest) -> None:
    scope_id = ingest.scopes[Mode.LIVE]
    events = [new_event(scope_id=scope_id, ref=f"booking:{n % 3}") for n in range(60)]
    event_ids = await accept_events(ingest.database, events)
    consumer = Consumer(ingest.database, LocalBus(), ingest.tenants)
    for n in range(0, 60, 2):
        await create_jobs(ingest.database, [new_job(scope_id=scope_id, event_id=event_ids[n])])

    async def work() -> None:
        for claim in await claim_jobs(ingest.database, scopes=[scope_id], quota=5):
            await settle(ingest, claim, Delivered())

    async def cancel_ref(ref: str) -> int:
        return (await ingest.live.post("/api/v1/events/cancel", json={"ref": ref})).status_code

    jobs = [consumer.consume(Announcement(tuple(event_ids[n : n + 10]))) for n in range(0, 60, 10)]
    done = await asyncio.gather(
        *jobs, *(work() for _ in range(6)), *(cancel_ref(f"booking:{n % 3}") for n in range(6)), return_exceptions=True
    )
    assert [one for one in done if isinstance(one, BaseException)] == []
    assert {one for one in done if isinstance(one, int)} <= {200}
    for n in range(3):
        await cancel_ref(f"booking:{n}")
    assert {status for _, status in await states(ingest)} <= {"SENT", "CANCELLED"}
    assert await ledger_mistakes(ingest.database) == []


async def test_an_expired_job_is_over_and_not_cancelled(ingest: Ingest) -> None:
    event_id = await routed(ingest, Channel.EMAIL)
    claim = await claimed(ingest)
    async with ingest.database.hot() as pg:
        await settle_if_claimed(pg, Channel.EMAIL, [report_of(claim, failed_unsent(claim, JobReason.EXPIRED))])
    status, told = await post(ingest, event_id)
    assert (status, told["code"]) == (409, "not_cancellable")


async def waiting(ingest: Ingest, count: int) -> None:
    """Return once ``count`` statements wait for a lock."""

    async def so_many() -> bool:
        async with ingest.database.hot() as pg:
            found = await pg.fetchval(
                """
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'
                """
            )
        return bool(found == count)

    await eventually(so_many)
