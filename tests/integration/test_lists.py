"""The lists of events and jobs: complete, newest first, each page where the one before ended."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.ingest import sieve
from shared.channel import Channel
from shared.event import EventReason, EventStatus, Outcome
from shared.ids import EventId, ScopeId, format_event_id, format_job_id
from shared.job import REASONS, JobReason, JobStatus
from shared.store import event_lists
from shared.store.database import Database
from shared.store.events import NewEvent
from shared.store.outgoing import NewJob
from shared.store.routing import End, finish_if_queued
from shared.tenant import Mode
from tests.factories import accept_events, create_jobs, new_event, new_job
from tests.fakes.ingest import Ingest, body, running_ingest

START = datetime(2026, 11, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Lists:
    """A running ingest with events made straight in the store, and its lists read to the end."""

    def __init__(self, ingest: Ingest) -> None:
        self.ingest = ingest
        self.scope_id = ingest.scopes[Mode.LIVE]

    async def add(self, *events: NewEvent, at: datetime = START) -> list[EventId]:
        """``events`` received at ``at``."""
        return await accept_events(self.ingest.database, events, at)

    def event(self, **fields: Any) -> NewEvent:
        """An event of the live scope."""
        return new_event(**{"scope_id": self.scope_id, **fields})

    async def job(
        self, event_id: EventId, channel: Channel, status: JobStatus, scope_id: ScopeId | None = None
    ) -> None:
        """A job of the event in ``status``, with a reason that goes with it."""
        reason = next((reason for reason, text in REASONS.items() if text.status is status), JobReason.NONE)
        await create_jobs(self.ingest.database, [self.finished(event_id, channel, status, reason, scope_id)])

    def finished(
        self,
        event_id: EventId,
        channel: Channel,
        status: JobStatus,
        reason: JobReason,
        scope_id: ScopeId | None = None,
    ) -> NewJob:
        """A job that was in ``status`` from the beginning."""
        job = new_job(channel=channel, scope_id=scope_id or self.scope_id, event_id=event_id)
        return replace(job, status=status, reason=reason)

    async def end(self, event_id: EventId, status: EventStatus, reason: EventReason = EventReason.NONE) -> None:
        """The event reaches the end of routing."""
        async with self.ingest.database.hot() as pg:
            await finish_if_queued(pg, [End(event_id, status, reason)])

    async def page(self, path: str, **parameters: Any) -> dict[str, Any]:
        """One page."""
        answer = await self.ingest.live.get(f"/api/v1/{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        page: dict[str, Any] = answer.json()
        assert page.keys() == {"data", "next_cursor"}
        return page

    async def all(self, path: str, **parameters: Any) -> list[dict[str, Any]]:
        """Every entry, page after page."""
        entries: list[dict[str, Any]] = []
        page = await self.page(path, **parameters)
        entries += page["data"]
        while page["next_cursor"] is not None:
            page = await self.page(path, **parameters, cursor=page["next_cursor"])
            entries += page["data"]
        return entries

    async def event_ids(self, **parameters: Any) -> list[str]:
        """The ids of the events that pass the filters."""
        return [event["id"] for event in await self.all("events", **parameters)]


@pytest.fixture
async def lists(database: Database) -> AsyncIterator[Lists]:
    async with running_ingest(database) as ingest:
        yield Lists(ingest)


def ids(*event_ids: EventId) -> list[str]:
    return [format_event_id(event_id) for event_id in event_ids]


async def test_events_come_newest_first_and_every_page_begins_where_the_last_one_ended(lists: Lists) -> None:
    made: list[EventId] = []
    for minute in range(5):
        # Eleven at the same instant: the end of a page may lie in their midst.
        made += sorted(await lists.add(*(lists.event() for _ in range(11)), at=START + minute * MINUTE))
    expected = ids(*reversed(made))
    for limit in (1, 7, 11, 50, 55, 200):
        assert await lists.event_ids(limit=limit) == expected
    first = await lists.page("events", limit=3)
    await lists.add(lists.event(), at=START + timedelta(hours=1))
    rest = await lists.page("events", limit=200, cursor=first["next_cursor"])
    assert [event["id"] for event in first["data"] + rest["data"]] == expected


async def test_a_page_has_fifty_by_default_and_the_exact_end_has_no_cursor(lists: Lists) -> None:
    await lists.add(*(lists.event() for _ in range(51)))
    assert len((await lists.page("events"))["data"]) == 50
    assert (await lists.page("events", limit=51))["next_cursor"] is None
    assert (await lists.page("events", limit=50))["next_cursor"] is not None
    assert (await lists.page("jobs")) == (await lists.page("jobs/failed")) == {"data": [], "next_cursor": None}


async def test_an_event_in_a_list_is_the_event_without_its_payload(lists: Lists) -> None:
    accepted = (await lists.ingest.live.post("/api/v1/events", json=body(ref="booking:bk_42"))).json()
    whole = (await lists.ingest.live.get(f"/api/v1/events/{accepted['id']}")).json()
    (listed,) = await lists.all("events")
    assert listed == {name: value for name, value in whole.items() if name != "payload"}


async def test_each_filter_lets_through_what_it_names_and_all_of_it(lists: Lists) -> None:
    plain, typed, ref, eve, failed, later = [
        (await lists.add(event, at=START + number * MINUTE))[0]
        for number, event in enumerate(
            [
                lists.event(),
                lists.event(event_type="refund_processed"),
                lists.event(ref="booking:bk_42"),
                lists.event(recipient='{"id":"eve"}'),
                lists.event(),
                lists.event(send_at=datetime.now(UTC) + timedelta(days=1)),
            ]
        )
    ]
    await lists.end(failed, EventStatus.FAILED, EventReason.ROUTING_FAILED)
    await lists.end(plain, EventStatus.ROUTED)
    assert await lists.event_ids(event_type="refund_processed") == ids(typed)
    assert await lists.event_ids(ref="booking:bk_42") == ids(ref)
    assert await lists.event_ids(recipient="eve") == ids(eve)
    assert await lists.event_ids(status="FAILED") == ids(failed)
    assert await lists.event_ids(status="SCHEDULED") == ids(later)
    assert await lists.event_ids(status="ROUTED") == ids(plain)
    assert await lists.event_ids(status="QUEUED") == ids(eve, ref, typed)
    assert await lists.event_ids(status="QUEUED", event_type="booking_confirmed", recipient="bob") == ids(ref)
    assert await lists.event_ids(ref="booking:bk_42", recipient="eve") == []
    assert await lists.event_ids(event_type="nobody_has_this") == []
    from_minute_1 = {"received_after": (START + MINUTE).isoformat()}
    to_minute_3 = {"received_before": (START + 3 * MINUTE).isoformat()}
    assert await lists.event_ids(**from_minute_1, **to_minute_3) == ids(ref, typed)
    assert await lists.event_ids(**from_minute_1, **to_minute_3, limit=1) == ids(ref, typed)
    assert await lists.event_ids(**to_minute_3, status="QUEUED", limit=1) == ids(ref, typed)


OUTCOMES = {
    Outcome.SENT: (JobStatus.SENT, JobStatus.SKIPPED),
    Outcome.PARTLY_SENT: (JobStatus.SENT, JobStatus.FAILED),
    Outcome.FAILED: (JobStatus.FAILED, JobStatus.SKIPPED),
    Outcome.SKIPPED: (JobStatus.SKIPPED, JobStatus.SKIPPED),
    Outcome.CANCELLED: (JobStatus.CANCELLED, JobStatus.SKIPPED),
    Outcome.IN_PROGRESS: (JobStatus.SENT, JobStatus.PENDING),
}


@pytest.mark.parametrize("most_collected", [5_000, 3])
async def test_an_outcome_finds_its_events_be_they_rare_or_frequent(
    lists: Lists, monkeypatch: pytest.MonkeyPatch, most_collected: int
) -> None:
    monkeypatch.setattr(event_lists, "MOST_COLLECTED", most_collected)
    expected: dict[Outcome, list[EventId]] = {outcome: [] for outcome in Outcome}
    for minute in range(4):
        for outcome, (email, inapp) in OUTCOMES.items():
            (event_id,) = await lists.add(lists.event(), at=START + minute * MINUTE)
            await lists.job(event_id, Channel.EMAIL, email)
            await lists.job(event_id, Channel.INAPP, inapp)
            await lists.end(event_id, EventStatus.ROUTED)
            expected[outcome].append(event_id)
    queued, failed = await lists.add(lists.event(), lists.event(), at=START - MINUTE)
    await lists.end(failed, EventStatus.FAILED, EventReason.ROUTING_FAILED)
    expected[Outcome.IN_PROGRESS].insert(0, queued)
    expected[Outcome.FAILED].insert(0, failed)
    for outcome, event_ids in expected.items():
        found = await lists.all("events", outcome=outcome, limit=3)
        assert {event["outcome"] for event in found} == {outcome}
        assert [event["id"] for event in found] == ids(*reversed(event_ids))
    since = (START + 2 * MINUTE).isoformat()
    assert len(await lists.event_ids(outcome="failed", received_after=since)) == 2
    assert await lists.event_ids(outcome="failed", status="FAILED") == ids(failed)
    assert await lists.event_ids(outcome="failed", recipient="eve") == []


async def test_a_page_that_has_looked_through_enough_ends_short_and_the_next_goes_on(
    lists: Lists, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sieve, "PORTION", 5)
    monkeypatch.setattr(sieve, "MOST_PORTIONS", 2)
    (wanted,) = await lists.add(lists.event(event_type="rare", ref="r"))
    await lists.add(*(lists.event(ref="r") for _ in range(30)), at=START + MINUTE)
    page = await lists.page("events", ref="r", event_type="rare")
    assert page["data"] == []
    assert page["next_cursor"] is not None
    assert await lists.event_ids(ref="r", event_type="rare") == ids(wanted)


async def test_jobs_come_newest_first_with_their_event_and_pass_each_filter(lists: Lists) -> None:
    made: list[tuple[EventId, Channel, JobStatus, str]] = []
    for number, (status, reason) in enumerate(
        [
            (JobStatus.SENT, JobReason.NONE),
            (JobStatus.SENT, JobReason.INBOX_ONLY),
            (JobStatus.PENDING, JobReason.NONE),
            (JobStatus.FAILED, JobReason.EXPIRED),
            (JobStatus.FAILED, JobReason.NO_ADDRESS),
            (JobStatus.SKIPPED, JobReason.PREFERENCE),
            (JobStatus.CANCELLED, JobReason.NONE),
        ]
    ):
        (event_id,) = await lists.add(lists.event(event_type=f"type_{number % 2}", ref=f"ref-{number}"))
        for channel in (Channel.EMAIL, Channel.PUSH):
            await create_jobs(lists.ingest.database, [lists.finished(event_id, channel, status, reason)])
            made.append((event_id, channel, status, reason))

    def expected(**wanted: object) -> list[str]:
        return [
            format_job_id(event_id, channel)
            for event_id, channel, status, reason in reversed(made)
            if {"channel": channel, "status": status, "reason": reason} | wanted
            == {"channel": channel, "status": status, "reason": reason}
        ]

    async def found(**parameters: Any) -> list[str]:
        return [job["id"] for job in await lists.all("jobs", **parameters)]

    for limit in (1, 4, 14, 200):
        assert await found(limit=limit) == expected()
    for wanted in (
        {"channel": "email"},
        {"status": "SENT"},
        {"status": "PENDING"},
        {"status": "FAILED", "channel": "push"},
        {"reason": "inbox_only"},
        {"reason": "expired", "status": "FAILED"},
        {"reason": "expired", "status": "SENT"},
        {"status": "CANCELLED"},
    ):
        assert await found(**wanted, limit=1) == expected(**wanted)
    assert len(await found(event_type="type_1")) == 6
    assert len(await found(event_type="type_1", status="FAILED", limit=1)) == 2
    newest, *_ = await lists.all("jobs")
    assert newest["event_id"] == format_event_id(made[-1][0])
    assert (newest["event_type"], newest["ref"], newest["recipient_id"]) == ("type_0", "ref-6", "bob")
    assert (newest["status"], newest["reason"], newest["attempts"]) == ("CANCELLED", None, [])


async def test_failed_jobs_are_listed_with_reason_meaning_and_next_step_the_last_to_fail_first(lists: Lists) -> None:
    early, late = await lists.add(lists.event(), lists.event(event_type="refund_processed"))
    bad = lists.finished(late, Channel.EMAIL, JobStatus.FAILED, JobReason.TEMPLATE_ERROR)
    await create_jobs(
        lists.ingest.database, [replace(bad, body=None, detail="subject.en, line 1: payload.x is undefined")]
    )
    await create_jobs(
        lists.ingest.database, [lists.finished(early, Channel.INAPP, JobStatus.FAILED, JobReason.EXPIRED)]
    )
    await lists.job(early, Channel.EMAIL, JobStatus.SENT)
    first, second = await lists.all("jobs/failed")
    assert (first["id"], second["id"]) == (format_job_id(early, Channel.INAPP), format_job_id(late, Channel.EMAIL))
    text = REASONS[JobReason.TEMPLATE_ERROR]
    assert (second["reason"], second["meaning"], second["next_step"]) == (
        "template_error",
        text.meaning,
        text.next_step,
    )
    assert second["detail"] == "subject.en, line 1: payload.x is undefined"
    async with lists.ingest.database.hot() as pg:
        await pg.execute("UPDATE outgoing SET finished_at = now() + interval '1 hour' WHERE event_id = $1", late)
    assert [job["id"] for job in await lists.all("jobs/failed", limit=1)] == [second["id"], first["id"]]
    soon = (datetime.now(UTC) + 30 * MINUTE).isoformat()
    assert [job["id"] for job in await lists.all("jobs/failed", failed_before=soon)] == [first["id"]]
    assert [job["id"] for job in await lists.all("jobs/failed", failed_after=soon)] == [second["id"]]
    assert [job["id"] for job in await lists.all("jobs/failed", reason="expired", limit=1)] == [first["id"]]
    assert [job["id"] for job in await lists.all("jobs/failed", channel="email")] == [second["id"]]
    assert [job["id"] for job in await lists.all("jobs/failed", event_type="refund_processed")] == [second["id"]]


async def test_a_scope_lists_only_what_is_its_own(lists: Lists) -> None:
    (mine,) = await lists.add(lists.event())
    (theirs,) = await lists.add(lists.event(scope_id=lists.ingest.scopes[Mode.TEST], ref="r"))
    for event_id, mode in ((mine, Mode.LIVE), (theirs, Mode.TEST)):
        await lists.job(event_id, Channel.EMAIL, JobStatus.FAILED, lists.ingest.scopes[mode])
    assert await lists.event_ids() == ids(mine)
    assert await lists.event_ids(outcome="in_progress") == ids(mine)
    assert await lists.event_ids(ref="r") == []
    for path in ("jobs", "jobs/failed"):
        assert [job["event_id"] for job in await lists.all(path)] == ids(mine)
    cursor = (await lists.ingest.test.get("/api/v1/events", params={"limit": 1})).json()["next_cursor"]
    assert cursor is None


@pytest.mark.parametrize(
    ("path", "query", "pointers"),
    [
        ("events", "limit=0", ["/limit"]),
        ("events", "limit=201", ["/limit"]),
        ("events", "status=failed", ["/status"]),
        ("events", "status=SENT", ["/status"]),
        ("events", "outcome=SENT", ["/outcome"]),
        ("events", "outcome=", ["/outcome"]),
        ("events", "ref=", ["/ref"]),
        ("events", "ref=a%00b", ["/ref"]),
        ("events", "recipient=" + "x" * 256, ["/recipient"]),
        ("events", "received_after=yesterday", ["/received_after"]),
        ("events", "received_after=2026-12-01T14:00:00", ["/received_after"]),
        ("events", "received_before=2026-12-01T14:00:00+01:00", ["/received_before"]),
        ("events", "event_typ=x", ["/event_typ"]),
        ("events", "ref=a&ref=b", ["/ref"]),
        ("events", "cursor=abc", ["/cursor"]),
        ("events", "cursor=" + "a" * 1_000, ["/cursor"]),
        ("events", "limit=x&status=y&colour=z&cursor=%00", ["/colour", "/status", "/limit", "/cursor"]),
        ("jobs", "channel=fax", ["/channel"]),
        ("jobs", "reason=none", ["/reason"]),
        ("jobs", "ref=x", ["/ref"]),
        ("jobs/failed", "status=FAILED", ["/status"]),
        ("jobs/failed", "reason=inbox_only", ["/reason"]),
        ("jobs/failed", "failed_before=1", ["/failed_before"]),
    ],
)
async def test_a_wrong_query_is_refused_with_every_mistake(
    lists: Lists, path: str, query: str, pointers: list[str]
) -> None:
    answer = await lists.ingest.live.get(f"/api/v1/{path}?{query}")
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "validation_failed"
    assert [error["pointer"] for error in answer.json()["errors"]] == pointers


async def test_a_misspelt_parameter_or_word_is_met_with_the_right_one(lists: Lists) -> None:
    answer = await lists.ingest.live.get("/api/v1/events?recieved_after=x&status=faild&outcom=sent")
    details = {error["pointer"]: error["detail"] for error in answer.json()["errors"]}
    assert details["/recieved_after"].endswith("did you mean received_after?")
    assert details["/status"].endswith("did you mean FAILED?")
    assert details["/outcom"].endswith("did you mean outcome?")


async def test_a_cursor_is_good_for_its_own_list_and_filters_only(lists: Lists) -> None:
    await lists.add(*(lists.event(ref="r") for _ in range(3)))
    cursor = (await lists.page("events", limit=1, ref="r"))["next_cursor"]
    assert len((await lists.page("events", limit=2, ref="r", cursor=cursor))["data"]) == 2
    for path, parameters in (
        ("events", {}),
        ("events", {"ref": "s"}),
        ("events", {"ref": "r", "status": "QUEUED"}),
        ("jobs", {}),
    ):
        answer = await lists.ingest.live.get(f"/api/v1/{path}", params={**parameters, "cursor": cursor})
        assert answer.status_code == 422
        assert [error["pointer"] for error in answer.json()["errors"]] == ["/cursor"]
    foreign = await lists.ingest.test.get("/api/v1/events", params={"ref": "r", "cursor": cursor})
    assert foreign.status_code == 422


async def test_a_query_of_thousands_of_parameters_is_refused_with_a_short_answer(lists: Lists) -> None:
    answer = await lists.ingest.live.get("/api/v1/events?" + "&".join(f"p{number}=1" for number in range(5_000)))
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 50
