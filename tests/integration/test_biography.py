"""Why Bob did not get it: one event explains itself, from its reception to the last reason."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from services.router.consumer import Consumer
from shared.broker.local import LocalBus
from shared.broker.messages import Announcement
from shared.channel import Channel
from shared.event import EVENT_REASONS, EventReason
from shared.ids import EventId, TenantId, parse_event_id
from shared.job import REASONS, JobReason
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.database import Database
from shared.store.pauses import PauseKey, PauseKind, pause
from shared.tenant import ChannelTerms, EmailRule, InappRule, Tenant
from shared.waiting import WAITS, Wait
from tests.factories import claim_jobs
from tests.fakes.ingest import Ingest, body, running_ingest, tenant_model
from tests.fakes.ledger import ledger_mistakes


def how(channel: Channel) -> ChannelTerms:
    return ChannelTerms(Terms(DEFAULT_POLICIES[channel]))


def model(title: str) -> Tenant:
    """The tenant with a mail beside the entry, whose title is ``title``."""
    tenant = tenant_model()
    booked = replace(
        tenant.event_types["booking_confirmed"],
        inapp=InappRule(how(Channel.INAPP), {"en": title}, {"en": "Soon"}),
        email=EmailRule(how(Channel.EMAIL), {"en": "Booked"}, text={"en": "Soon"}),
    )
    return replace(tenant, event_types={booked.id: booked})


class Told:
    """A running ingest, and a router that is handed what was announced."""

    def __init__(self, ingest: Ingest, consumer: Consumer) -> None:
        self.ingest = ingest
        self.consumer = consumer

    async def post(self, **changes: Any) -> EventId:
        """An event, accepted and not routed."""
        answer = await self.ingest.live.post("/api/v1/events", json=body(**changes))
        assert answer.status_code == 202, answer.text
        event_id = parse_event_id(answer.json()["id"])
        assert event_id is not None
        return event_id

    async def event(self, event_id: EventId) -> dict[str, Any]:
        """The event as the API explains it."""
        found: dict[str, Any] = (await self.ingest.live.get(f"/api/v1/events/evt_{event_id.hex}")).json()
        return found


@pytest.fixture
async def told(database: Database) -> AsyncIterator[Told]:
    async with running_ingest(database) as ingest:
        yield Told(ingest, Consumer(database, LocalBus(), ingest.tenants))


async def test_a_channel_that_was_refused_says_which_line_of_which_template_or_what_the_event_lacks(
    told: Told, database: Database
) -> None:
    await told.ingest.apply(model("{{ payload.course }} with {{ payload.tutor }}"))
    event_id = await told.post(recipient={"id": "bob"})
    await told.consumer.consume(Announcement((event_id,)))
    event = await told.event(event_id)
    assert (event["status"], event["outcome"], event["reason"], event["detail"]) == ("ROUTED", "failed", None, None)
    email, inapp = sorted(event["jobs"], key=lambda job: job["channel"])
    for job, reason in ((inapp, JobReason.TEMPLATE_ERROR), (email, JobReason.NO_ADDRESS)):
        text = REASONS[reason]
        assert (job["status"], job["reason"]) == ("FAILED", reason)
        assert (job["meaning"], job["next_step"]) == (text.meaning, text.next_step)
    assert inapp["detail"].startswith("title.en, line 1: ")
    assert "tutor" in inapp["detail"]
    assert email["detail"] == "the event gave no email address for its recipient"
    failed = (await told.ingest.live.get("/api/v1/jobs/failed")).json()["data"]
    assert {job["id"]: job["detail"] for job in failed} == {job["id"]: job["detail"] for job in event["jobs"]}
    assert await ledger_mistakes(database) == []


async def test_an_event_whose_type_is_gone_names_the_type_and_the_file(told: Told) -> None:
    event_id = await told.post()
    await told.ingest.apply(replace(tenant_model(), event_types={}))
    await told.consumer.consume(Announcement((event_id,)))
    event = await told.event(event_id)
    text = EVENT_REASONS[EventReason.UNKNOWN_EVENT_TYPE]
    assert (event["status"], event["outcome"], event["reason"]) == ("FAILED", "failed", "unknown_event_type")
    assert (event["meaning"], event["next_step"]) == (text.meaning, text.next_step)
    assert event["detail"] == "version 2 of the tenant's file has no event type booking_confirmed"
    assert event["jobs"] == []


async def test_an_event_that_could_not_be_routed_says_so_and_is_found_among_the_failed(
    told: Told, database: Database
) -> None:
    event_id, other = await told.post(), await told.post(idempotency_key="other")
    async with database.hot() as pg:
        await pg.execute("UPDATE events SET recipient = '{}', route_tries = 5 WHERE event_id = $1", event_id)
    await told.consumer.consume(Announcement((event_id, other), again=True))
    event = await told.event(event_id)
    assert (event["status"], event["reason"]) == ("FAILED", "routing_failed")
    assert event["meaning"] == EVENT_REASONS[EventReason.ROUTING_FAILED].meaning
    assert "5 times" in event["detail"]
    listed = (await told.ingest.live.get("/api/v1/events?status=FAILED")).json()["data"]
    assert [one["id"] for one in listed] == [event["id"]]
    figures = (await told.ingest.live.get("/api/v1/metrics")).json()
    assert figures["events_failed"] == {"routing_failed": 1}
    assert await ledger_mistakes(database) == []


async def test_a_job_that_waits_says_for_what_and_what_to_do(told: Told, database: Database) -> None:
    await told.ingest.apply(model("Booked"))
    event_id = await told.post()
    await told.consumer.consume(Announcement((event_id,)))

    async def waits() -> list[Any]:
        jobs = (await told.event(event_id))["jobs"]
        return [job["waits_for"] and (job["waits_for"]["wait"], job["waits_for"]["detail"]) for job in jobs]

    assert await waits() == [("worker", None)] * 2
    async with database.hot() as pg:
        await pause(pg, PauseKey(PauseKind.CHANNEL, Channel.EMAIL), "wrong wording", None)
        # Another tenant's: no business of this one.
        await pause(pg, PauseKey(PauseKind.TENANT, "", TenantId(99)), "not yours", None)
    email, inapp = sorted((await told.event(event_id))["jobs"], key=lambda job: job["channel"])
    text = WAITS[Wait.PAUSED]
    assert email["waits_for"] == {
        "wait": "paused",
        "meaning": text.meaning,
        "next_step": text.next_step,
        "detail": "wrong wording",
        "since": email["waits_for"]["since"],
        "until": None,
    }
    assert inapp["waits_for"]["wait"] == "worker"
    await claim_jobs(database)
    assert {one[0] for one in await waits()} == {"in_hand", "worker"}
    assert "waits_for" not in (await told.ingest.live.get("/api/v1/jobs")).json()["data"][0]


def test_every_reason_has_a_meaning_and_a_next_step() -> None:
    assert REASONS.keys() == set(JobReason) - {JobReason.NONE}
    assert EVENT_REASONS.keys() == set(EventReason) - {EventReason.NONE}
    told = [(text.meaning, text.next_step) for text in REASONS.values()]
    told += [(text.meaning, text.next_step) for text in EVENT_REASONS.values()]
    assert all(sentence.endswith(".") for both in told for sentence in both)
