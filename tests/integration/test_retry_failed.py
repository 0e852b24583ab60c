"""Retrying what failed by filter: counted first, portion by portion, and never what has failed again since."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.ingest import retry_failed
from shared.broker.local import LocalBus
from shared.channel import Channel
from shared.ids import ScopeId
from shared.job import JobReason, JobStatus
from shared.store.database import Database
from shared.tenant import Mode
from tests.factories import accept_events, create_jobs, new_event, new_job, until
from tests.fakes.ingest import Ingest, running_ingest
from tests.fakes.ledger import ledger_mistakes

HOUR = timedelta(hours=1)


@pytest.fixture
async def ingest(database: Database) -> AsyncIterator[Ingest]:
    async with running_ingest(database) as running:
        yield running
    assert await ledger_mistakes(database) == []


async def failed(
    ingest: Ingest,
    count: int = 1,
    reason: JobReason = JobReason.EXHAUSTED,
    channel: Channel = Channel.EMAIL,
    event_type: str = "booking_confirmed",
    **changes: Any,
) -> None:
    """Jobs of the live scope that FAILED, with their events."""
    fields: dict[str, Any] = {"scope_id": ingest.scopes[Mode.LIVE], **changes}
    events = [new_event(scope_id=fields["scope_id"], event_type=event_type) for _ in range(count)]
    await accept_events(ingest.database, events)
    jobs = [new_job(channel=channel, event_id=event.event_id, **fields) for event in events]
    await create_jobs(ingest.database, [replace(job, status=JobStatus.FAILED, reason=reason) for job in jobs])


async def retry(ingest: Ingest, **fields: Any) -> dict[str, Any]:
    answer = await ingest.live.post("/api/v1/jobs/failed/retry", json=fields)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def states(ingest: Ingest) -> dict[str, int]:
    async with ingest.database.hot() as pg:
        rows = await pg.fetch("SELECT status, count(*) AS n FROM outgoing GROUP BY 1")
    return {row["status"]: row["n"] for row in rows}


async def fail_again(ingest: Ingest) -> None:
    """Every job that is PENDING has FAILED, just now."""
    async with ingest.database.hot() as pg:
        await pg.execute(
            "UPDATE outgoing SET status = 'FAILED', reason = 'exhausted', finished_at = now() WHERE status = 'PENDING'"
        )
        await pg.execute(
            "UPDATE ledger SET n = n + (SELECT sum(n) FROM ledger WHERE status = 'PENDING') "
            "WHERE status = 'FAILED' AND reason = 'exhausted'"
        )
        await pg.execute("UPDATE ledger SET n = 0 WHERE status = 'PENDING'")


async def test_a_dry_run_counts_and_its_bound_selects_nothing_that_failed_since(ingest: Ingest) -> None:
    await failed(ingest, 5)
    counted = await retry(ingest, dry_run=True)
    assert (counted["dry_run"], counted["count"], counted["skipped"], counted["more"]) == (True, 5, {}, False)
    assert await states(ingest) == {"FAILED": 5}
    bound = counted["failed_before"]
    await failed(ingest, 2)
    told = await retry(ingest, failed_before=bound)
    assert (told["dry_run"], told["count"], told["more"], told["failed_before"]) == (False, 5, False, bound)
    assert await states(ingest) == {"FAILED": 2, "PENDING": 5}
    await fail_again(ingest)
    for dry_run in (True, False):
        assert (await retry(ingest, failed_before=bound, dry_run=dry_run))["count"] == 0
    assert (await retry(ingest))["count"] == 7


async def test_a_bound_ahead_is_taken_for_now(ingest: Ingest) -> None:
    await failed(ingest)
    ahead = datetime.now(UTC) + HOUR
    told = await retry(ingest, dry_run=True, failed_before=ahead.isoformat())
    assert told["count"] == 1
    assert datetime.fromisoformat(told["failed_before"]) < ahead


async def test_each_filter_of_the_list_of_failed_jobs_narrows_it(ingest: Ingest) -> None:
    await failed(ingest, 1)
    await failed(ingest, 2, reason=JobReason.REJECTED)
    await failed(ingest, 4, channel=Channel.INAPP)
    await failed(ingest, 8, event_type="reminder")
    assert (await retry(ingest, dry_run=True))["count"] == 15
    for filters, count in (
        ({"channel": "inapp"}, 4),
        ({"reason": "rejected"}, 2),
        ({"event_type": "reminder"}, 8),
        ({"channel": "email", "reason": "exhausted", "event_type": "booking_confirmed"}, 1),
        ({"failed_after": (datetime.now(UTC) + HOUR).isoformat()}, 0),
        ({"failed_before": (datetime.now(UTC) - HOUR).isoformat()}, 0),
    ):
        assert (await retry(ingest, **filters, dry_run=True))["count"] == count, filters
    assert (await retry(ingest, event_type="reminder"))["count"] == 8
    assert await states(ingest) == {"FAILED": 7, "PENDING": 8}


async def test_what_cannot_be_sent_is_skipped_and_counted_by_its_cause(ingest: Ingest) -> None:
    await failed(ingest, 2)
    await failed(ingest, 3, reason=JobReason.EXPIRED, expires_in=-HOUR)
    async with ingest.database.hot() as pg:
        await pg.execute("DELETE FROM content WHERE job_id = (SELECT min(job_id) FROM content)")
    skipped = {"content_gone": 1, "expired": 3}
    counted = await retry(ingest, dry_run=True)
    assert (counted["count"], counted["skipped"]) == (1, skipped)
    told = await retry(ingest)
    assert (told["count"], told["skipped"]) == (1, skipped)
    told = await retry(ingest, extend="1h")
    assert (told["count"], told["skipped"]) == (3, {"content_gone": 1})


async def test_mails_are_readdressed_each_to_its_recipients_last_address(ingest: Ingest) -> None:
    scope_id = ingest.scopes[Mode.LIVE]
    for who in ("ada", "bea", "cleo"):
        await failed(ingest, recipient_id=who, to_address=f"{who}@old.example")
    known = {"ada": "ada@new.example", "bea": "bea@old.example"}
    recipients = [f'{{"id":"{who}","email":"{email}"}}' for who, email in known.items()]
    await accept_events(ingest.database, [new_event(scope_id=scope_id, recipient=one) for one in recipients])
    told = await retry(ingest, readdress=True)
    assert (told["count"], told["skipped"]) == (1, {"no_other_address": 2})
    async with ingest.database.hot() as pg:
        rows = await pg.fetch(
            "SELECT body ->> 'to_address' FROM content JOIN outgoing USING (job_id) WHERE status = 'PENDING'"
        )
    assert [row[0] for row in rows] == ["ada@new.example"]


async def test_many_jobs_are_retried_portion_by_portion_until_there_is_no_more(
    ingest: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_failed, "PORTION", 10)
    monkeypatch.setattr(retry_failed, "MOST_RETRIED", 20)
    # All at the same instant: the end of a portion lies in their midst.
    await failed(ingest, 45)
    counts: list[int] = []
    more, fields = True, dict[str, Any]()
    while more:
        told = await retry(ingest, **fields)
        counts.append(told["count"])
        more, fields = told["more"], {"failed_before": told["failed_before"]}
    assert (counts, await states(ingest)) == ([20, 20, 5], {"PENDING": 45})


async def test_those_that_cannot_be_sent_do_not_stand_in_the_way_of_the_others(
    ingest: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_failed, "PORTION", 10)
    monkeypatch.setattr(retry_failed, "MOST_LOOKED_AT", 20)
    await failed(ingest, 5)
    for _ in range(3):
        await failed(ingest, 10, reason=JobReason.EXPIRED, expires_in=-HOUR)
    counts: list[int] = []
    more, fields = True, dict[str, Any]()
    while more:
        told = await retry(ingest, **fields)
        counts.append(told["count"])
        more, fields = told["more"], {"failed_before": told["failed_before"]}
    assert (counts[0], sum(counts)) == (0, 5)


async def test_another_half_is_left_alone(ingest: Ingest) -> None:
    await failed(ingest, 3, scope_id=ingest.scopes[Mode.TEST])
    assert (await retry(ingest))["count"] == 0
    assert await states(ingest) == {"FAILED": 3}


async def test_the_channels_of_what_was_retried_are_woken(database: Database) -> None:
    bus, woken = LocalBus(), dict[Channel, frozenset[ScopeId]]()
    async with running_ingest(database, bus) as ingest:
        for channel in Channel:
            bus.on_wake(channel, lambda scopes, channel=channel: woken.update({channel: scopes}))  # type: ignore[misc]
        await failed(ingest)
        await retry(ingest, dry_run=True)
        await retry(ingest)
        await until(lambda: woken)
        assert woken == {Channel.EMAIL: frozenset({ingest.scopes[Mode.LIVE]})}


async def test_every_mistake_in_the_body_is_named_at_once(ingest: Ingest) -> None:
    body = {"channel": "sms", "reason": "preference", "failed_after": "today", "extend": "soon", "limit": 5}
    answer = await ingest.live.post("/api/v1/jobs/failed/retry", json=body)
    assert answer.status_code == 422
    assert {error["pointer"] for error in answer.json()["errors"]} == {"/failed_after", "/limit"}
    answer = await ingest.live.post(
        "/api/v1/jobs/failed/retry", json={"channel": "emial", "reason": "preference", "extend": "soon"}
    )
    errors = {error["pointer"]: error["detail"] for error in answer.json()["errors"]}
    assert errors.keys() == {"/channel", "/reason", "/extend"}
    assert "did you mean email?" in errors["/channel"]
