"""Retrying what failed at routing: rendered now, under the mended file, to an address that has come since."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from services.router.consumer import Consumer
from shared.broker.local import LocalBus
from shared.broker.messages import Announcement
from shared.channel import Channel
from shared.ids import EventId, format_job_id, parse_event_id
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.database import Database
from shared.tenant import ChannelTerms, EmailRule, Tenant
from tests.fakes.ingest import Ingest, body, running_ingest, tenant_model
from tests.fakes.ledger import ledger_mistakes

MENDED = "Booked: {{ payload.course }}"
BROKEN = "Booked with {{ payload.tutor }}"


def model(subject: str) -> Tenant:
    """The tenant, whose only channel is a mail with this subject."""
    terms = ChannelTerms(Terms(DEFAULT_POLICIES[Channel.EMAIL]))
    tenant = tenant_model()
    mail = EmailRule(terms, {"en": subject}, text={"en": "Soon"})
    booked = replace(tenant.event_types["booking_confirmed"], inapp=None, email=mail)
    return replace(tenant, event_types={booked.id: booked})


@dataclass
class Told:
    """A running ingest, and a router that is handed what was posted."""

    ingest: Ingest
    consumer: Consumer
    posted: int = 0

    async def post(self, **recipient: str) -> EventId:
        """An event for bob, routed."""
        self.posted += 1
        changes = {"idempotency_key": f"key-{self.posted}", "recipient": {"id": "bob", **recipient}}
        answer = await self.ingest.live.post("/api/v1/events", json=body(**changes))
        event_id = parse_event_id(answer.json()["id"])
        assert event_id is not None
        await self.consumer.consume(Announcement((event_id,)))
        return event_id

    async def retry(self, event_id: EventId, **options: Any) -> tuple[int, dict[str, Any]]:
        """The answer to a retry of the event's mail."""
        url = f"/api/v1/jobs/{format_job_id(event_id, Channel.EMAIL)}/retry"
        answer = await self.ingest.live.post(url, json=options)
        return answer.status_code, answer.json()

    async def retry_all(self, **fields: Any) -> tuple[int, dict[str, int]]:
        """How many jobs a retry by filter retried, and skipped."""
        answer = await self.ingest.live.post("/api/v1/jobs/failed/retry", json=fields)
        told = answer.json()
        return told["count"], told["skipped"]

    async def mails(self) -> list[tuple[str, str, str]]:
        """Status, address and subject of each job that has content, the first first."""
        async with self.ingest.database.hot() as pg:
            rows = await pg.fetch(
                "SELECT status, body ->> 'to_address', body ->> 'subject' "
                "FROM outgoing JOIN content USING (job_id) ORDER BY job_id"
            )
        return [(row[0], row[1], row[2]) for row in rows]


@pytest.fixture
async def told(database: Database) -> AsyncIterator[Told]:
    async with running_ingest(database) as ingest:
        await ingest.apply(model(MENDED))
        yield Told(ingest, Consumer(database, LocalBus(), ingest.tenants))
    assert await ledger_mistakes(database) == []


async def test_a_job_whose_template_was_mended_is_rendered_and_sent(told: Told) -> None:
    await told.ingest.apply(model(BROKEN))
    event_id = await told.post(email="bob@example.com")
    code, answer = await told.retry(event_id)
    assert (code, answer["code"]) == (409, "content_gone")
    assert "subject.en, line 1" in answer["detail"]
    assert await told.mails() == []
    await told.ingest.apply(model(MENDED))
    code, answer = await told.retry(event_id)
    assert (code, answer["status"], answer["detail"]) == (200, "PENDING", None)
    assert await told.mails() == [("PENDING", "bob@example.com", "Booked: Algebra")]
    assert (await told.retry(event_id))[1]["code"] == "job_not_failed"


async def test_a_job_without_an_address_goes_to_the_one_that_has_come_since(told: Told) -> None:
    event_id = await told.post()
    code, answer = await told.retry(event_id, readdress=True)
    assert (code, answer["code"]) == (409, "content_gone")
    assert "no email address" in answer["detail"]
    await told.post(email="bob@new.example")
    code, answer = await told.retry(event_id)
    assert (code, answer["code"]) == (409, "content_gone")
    code, _ = await told.retry(event_id, readdress=True)
    assert code == 200
    assert (await told.mails())[0] == ("PENDING", "bob@new.example", "Booked: Algebra")


async def test_by_filter_too_and_a_dry_run_counts_the_same(told: Told) -> None:
    await told.ingest.apply(model(BROKEN))
    for _ in range(3):
        await told.post(email="bob@example.com")
    await told.post()
    assert await told.retry_all(dry_run=True) == (0, {"content_gone": 4})
    await told.ingest.apply(model(MENDED))
    assert await told.retry_all(dry_run=True) == (3, {"content_gone": 1})
    assert await told.mails() == []
    assert await told.retry_all(readdress=True, dry_run=True) == (4, {})
    assert await told.retry_all() == (3, {"content_gone": 1})
    assert await told.retry_all(readdress=True) == (1, {})
    assert await told.mails() == [("PENDING", "bob@example.com", "Booked: Algebra")] * 4


async def test_what_has_expired_or_lost_its_event_type_is_not_rendered_into_being(told: Told) -> None:
    await told.ingest.apply(model(BROKEN))
    event_id = await told.post(email="bob@example.com")
    await told.ingest.apply(replace(model(MENDED), event_types={}))
    code, answer = await told.retry(event_id)
    assert (code, answer["code"]) == (409, "content_gone")
    assert "no event type booking_confirmed" in answer["detail"]
    await told.ingest.apply(model(MENDED))
    async with told.ingest.database.hot() as pg:
        await pg.execute("UPDATE outgoing SET expires_at = now() - $1::interval", timedelta(hours=1))
    code, answer = await told.retry(event_id)
    assert (code, answer["code"]) == (409, "job_expired")
    assert (await told.retry(event_id, extend="1h"))[0] == 200


async def test_without_its_event_there_is_nothing_to_render(told: Told) -> None:
    await told.ingest.apply(model(BROKEN))
    event_id = await told.post(email="bob@example.com")
    await told.ingest.apply(model(MENDED))
    async with told.ingest.database.hot() as pg, pg.transaction():
        await pg.execute("DELETE FROM events")
        await pg.execute("DELETE FROM ledger WHERE channel = 'event'")
    code, answer = await told.retry(event_id)
    assert (code, answer["code"], answer["detail"]) == (409, "content_gone", "The job's content was purged.")
