"""Events in and out: accepted, explained, counted, and nobody else's business."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.channel import BUILT_CHANNELS, Channel
from shared.event import EventStatus
from shared.ids import format_job_id, parse_event_id
from shared.job import REASONS, JobReason, JobStatus
from shared.store.claim import Claim
from shared.store.database import Database
from shared.store.routing import End, finish_if_queued
from shared.store.settle import AttemptRow, Report, settle_if_claimed
from shared.tenant import Mode
from shared.web.instant import write_instant
from tests.factories import claim_jobs, create_jobs, new_job, until
from tests.fakes.ingest import Ingest, body, running_ingest


@pytest.fixture
async def ingest(database: Database) -> AsyncIterator[Ingest]:
    async with running_ingest(database) as running:
        yield running


async def test_an_accepted_event_is_stored_counted_announced_and_found_at_its_location(ingest: Ingest) -> None:
    answer = await ingest.live.post("/api/v1/events", json=body(ref="booking:bk_42"), headers={"X-Request-Id": "r-1"})
    assert answer.status_code == 202
    accepted = answer.json()
    assert accepted["status"] == "QUEUED"
    assert accepted["outcome"] == "in_progress"
    assert accepted["ref"] == "booking:bk_42"
    assert accepted["request_id"] == "r-1"
    assert answer.headers["Location"] == f"/api/v1/events/{accepted['id']}"
    assert "Idempotent-Replayed" not in answer.headers

    found = (await ingest.live.get(answer.headers["Location"])).json()
    assert found["recipient"] == {"id": "bob", "email": "bob@example.com", "locale": "en"}
    assert found["payload"] == {"course": "Algebra"}
    assert {name: value for name, value in found.items() if name not in ("recipient", "payload")} == accepted

    event_id = parse_event_id(accepted["id"])
    await until(lambda: ingest.announced == [event_id])
    counts = (await ingest.live.get("/api/v1/metrics")).json()
    assert counts["events"] == {"SCHEDULED": 0, "QUEUED": 1, "ROUTED": 0, "FAILED": 0, "CANCELLED": 0}
    nothing = {"PENDING": 0, "SENT": 0, "FAILED": 0, "SKIPPED": 0, "CANCELLED": 0}
    assert counts["jobs"] == dict.fromkeys(BUILT_CHANNELS, nothing)


async def test_an_event_expires_after_what_its_type_says_unless_it_says_so_itself(ingest: Ingest) -> None:
    by_rule = (await ingest.live.post("/api/v1/events", json=body(idempotency_key="a"))).json()
    received_at = datetime.fromisoformat(by_rule["received_at"])
    assert datetime.fromisoformat(by_rule["expires_at"]) - received_at == timedelta(hours=6)

    expires_at = write_instant(datetime.now(UTC) + timedelta(hours=1))
    by_itself = await ingest.live.post("/api/v1/events", json=body(idempotency_key="b", expires_at=expires_at))
    assert by_itself.json()["expires_at"] == expires_at


async def test_an_event_for_later_is_scheduled_and_expires_from_then_on(ingest: Ingest) -> None:
    send_at = (datetime.now(UTC) + timedelta(days=2)).replace(microsecond=0)
    accepted = (await ingest.live.post("/api/v1/events", json=body(send_at=send_at.isoformat()))).json()
    assert accepted["status"] == "SCHEDULED"
    assert accepted["send_at"] == write_instant(send_at)
    assert accepted["expires_at"] == write_instant(send_at + timedelta(hours=6))
    assert ingest.announced == []


async def test_an_event_that_was_to_go_out_in_the_past_goes_out_now(ingest: Ingest) -> None:
    accepted = (await ingest.live.post("/api/v1/events", json=body(send_at="2020-01-01T00:00:00Z"))).json()
    assert accepted["status"] == "QUEUED"
    assert datetime.fromisoformat(accepted["expires_at"]) > datetime.now(UTC)


@pytest.mark.parametrize("instant", ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "1969-12-31T23:59:59Z"])
async def test_the_zero_time_of_other_languages_means_now(ingest: Ingest, instant: str) -> None:
    answer = await ingest.live.post("/api/v1/events", json=body(send_at=instant))
    assert (answer.status_code, answer.json()["status"]) == (202, "QUEUED")
    again = await ingest.live.post("/api/v1/events", json=body(send_at=instant))
    assert (again.status_code, again.json()["id"]) == (202, answer.json()["id"])
    assert (await ingest.live.get(f"/api/v1/events/{answer.json()['id']}")).status_code == 200


async def test_two_headers_with_different_keys_are_refused(ingest: Ingest) -> None:
    posted = body()
    del posted["idempotency_key"]
    answer = await ingest.live.post(
        "/api/v1/events", json=posted, headers=[("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
    )
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "idempotency_key_conflict")
    assert await ingest.count("events") == 0


async def test_an_event_that_expires_before_it_is_sent_is_refused(ingest: Ingest) -> None:
    soon, sooner = (write_instant(datetime.now(UTC) + timedelta(hours=hours)) for hours in (2, 1))
    answer = await ingest.live.post("/api/v1/events", json=body(send_at=soon, expires_at=sooner))
    assert answer.status_code == 422
    assert [(e["pointer"], e["code"]) for e in answer.json()["errors"]] == [("/expires_at", "expires_too_early")]


async def test_numbers_of_a_payload_are_kept_to_the_digit(ingest: Ingest) -> None:
    numbers = '"seats": 10.50, "tags": [1, 1.0, 1e2, 12345678901234567890123]'
    posted = json.dumps(body()).replace('"Algebra"', f'"Algebra", {numbers}')
    answer = await ingest.live.post("/api/v1/events", content=posted, headers={"Content-Type": "application/json"})
    assert answer.status_code == 202, answer.text
    found = await ingest.live.get(answer.headers["Location"])
    assert '"seats":10.50,"tags":[1,1.0,1E+2,12345678901234567890123]' in found.text


async def test_an_event_explains_its_jobs_and_every_attempt(ingest: Ingest) -> None:
    accepted = (await ingest.live.post("/api/v1/events", json=body())).json()
    event_id = parse_event_id(accepted["id"])
    assert event_id is not None
    scope_id = ingest.scopes[Mode.LIVE]
    skipped = replace(
        new_job(channel=Channel.INAPP, scope_id=scope_id, event_id=event_id),
        status=JobStatus.SKIPPED,
        reason=JobReason.PREFERENCE,
        body=None,
    )
    await create_jobs(ingest.database, [skipped])
    await create_jobs(ingest.database, [new_job(scope_id=scope_id, event_id=event_id)])
    (claim,) = await claim_jobs(ingest.database, scopes=[scope_id])
    async with ingest.database.hot() as pg:
        await settle_if_claimed(pg, Channel.EMAIL, [rejected(claim)])
        await finish_if_queued(pg, [End(event_id, EventStatus.ROUTED)])

    found = (await ingest.live.get(f"/api/v1/events/{accepted['id']}")).json()
    assert (found["status"], found["outcome"]) == ("ROUTED", "failed")
    inapp, email = found["jobs"]
    assert inapp["id"] == format_job_id(event_id, Channel.INAPP)
    assert (inapp["channel"], inapp["status"], inapp["reason"]) == ("inapp", "SKIPPED", "preference")
    assert inapp["attempts"] == []
    assert inapp["meaning"] == REASONS[JobReason.PREFERENCE].meaning
    assert (email["status"], email["reason"], email["due_at"]) == ("FAILED", "rejected", None)
    (attempt,) = email["attempts"]
    assert attempt.pop("id").startswith("att_")
    assert attempt == {
        "number": 1,
        "provider": "smtp",
        "verdict": "rejected",
        "reason": "rejected",
        "code": "550",
        "error": "no such user",
        "started_at": "2026-12-01T14:00:00Z",
        "took_ms": 120,
        "applied": True,
        "late": False,
        "possible_duplicate": False,
    }
    counts = (await ingest.live.get("/api/v1/metrics")).json()
    assert counts["events"]["QUEUED"] == 0
    assert counts["events"]["ROUTED"] == counts["jobs"]["inapp"]["SKIPPED"] == counts["jobs"]["email"]["FAILED"] == 1


async def test_the_events_of_one_scope_do_not_exist_for_another(ingest: Ingest) -> None:
    accepted = (await ingest.live.post("/api/v1/events", json=body())).json()
    foreign = await ingest.test.get(f"/api/v1/events/{accepted['id']}")
    assert foreign.status_code == 404
    assert foreign.json()["code"] == "event_not_found"
    assert (await ingest.test.get("/api/v1/metrics")).json()["events"]["QUEUED"] == 0
    same_key = await ingest.test.post("/api/v1/events", json=body())
    assert same_key.status_code == 202
    assert same_key.json()["id"] != accepted["id"]


def rejected(claim: Claim) -> Report:
    attempt = AttemptRow(
        target_id=0,
        provider="smtp",
        verdict="rejected",
        reason="rejected",
        code="550",
        error="no such user",
        provider_id=None,
        started_at=datetime(2026, 12, 1, 14, tzinfo=UTC),
        took=timedelta(milliseconds=120),
        target_dead=False,
        possible_duplicate=False,
    )
    return Report(
        job_id=claim.job_id,
        claim_seq=claim.claim_seq,
        status=JobStatus.FAILED,
        reason=JobReason.REJECTED,
        delay=None,
        counted=True,
        unanswered=0,
        unknowns=0,
        delivered_any=False,
        attempts=(attempt,),
    )
