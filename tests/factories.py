"""Rows for tests, made through the product's own statements: an impossible row cannot be made."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.channel import Channel
from shared.content import EmailContent, InappContent
from shared.ids import EventId, ScopeId, TenantId, new_event_id
from shared.job import JobReason, JobStatus, Lane
from shared.retry import DEFAULT_POLICIES, RetryPolicy, Terms
from shared.store.claim import Claim, Head, Share, claim
from shared.store.content import encode_content, encode_terms
from shared.store.database import Database
from shared.store.events import NewEvent, insert_if_new
from shared.store.outgoing import MadeJob, NewJob, create_if_missing
from shared.tenant import EmailSender, Mode, ScopedTenant, Senders, Tenant

WAIT_SECONDS = 60.0


def new_job(
    *,
    channel: Channel = Channel.EMAIL,
    scope_id: int = 1,
    event_id: EventId | None = None,
    recipient_id: str = "bob",
    lane: Lane = Lane.TRANSACTIONAL,
    expires_in: timedelta = timedelta(hours=1),
    policy: RetryPolicy | None = None,
    on_unknown: str = "resend",
    subject: str = "Hello",
    to_address: str = "bob@example.com",
) -> NewJob:
    """A PENDING job with content, due now."""
    terms = Terms(policy or DEFAULT_POLICIES[channel], on_unknown)  # type: ignore[arg-type]
    content = (
        InappContent(title=subject, body="Text", locale="en")
        if channel is Channel.INAPP
        else EmailContent(to_address, subject, "Text", "<p>Text</p>", "en")
    )
    return NewJob(
        event_id or new_event_id(),
        ScopeId(scope_id),
        channel,
        JobStatus.PENDING,
        JobReason.NONE,
        lane,
        terms.retry.attempts,
        datetime.now(UTC) + expires_in,
        "booking_confirmed",
        recipient_id,
        1,
        encode_terms(terms),
        encode_content(content),
    )


def new_event(
    *,
    scope_id: int = 1,
    key: str | None = None,
    event_type: str = "booking_confirmed",
    recipient: str = '{"id":"bob"}',
    payload: str = "{}",
    **changes: Any,
) -> NewEvent:
    """An event that expires a day after it was accepted; ``changes`` are fields of NewEvent."""
    event_id = new_event_id()
    fields: dict[str, Any] = {
        "body_hash": bytes(32),
        "ref": None,
        "file_version": 1,
        "send_at": None,
        "expires_at": None,
        "expires_after": timedelta(hours=24),
        "request_id": "",
    }
    return NewEvent(
        event_id=event_id,
        scope_id=ScopeId(scope_id),
        idempotency_key=key or event_id.hex,
        event_type=event_type,
        recipient=recipient,
        payload=payload,
        **(fields | changes),
    )


async def accept_events(database: Database, events: Sequence[NewEvent], now: datetime | None = None) -> list[EventId]:
    """``events`` in the table, accepted at ``now``."""
    async with database.hot() as pg:
        await insert_if_new(pg, events, now)
    return [event.event_id for event in events]


async def create_jobs(database: Database, jobs: Sequence[NewJob]) -> list[MadeJob]:
    """``jobs`` in the table, in their order."""
    async with database.hot() as pg, pg.transaction():
        made = {job.event_id: job for job in await create_if_missing(pg, jobs)}
    return [made[job.event_id] for job in jobs]


async def claim_jobs(
    database: Database,
    *,
    channel: Channel = Channel.EMAIL,
    scopes: Sequence[int] = (1,),
    quota: int = 100,
    lease: timedelta = timedelta(seconds=30),
    worker: str = "tester",
) -> list[Claim]:
    """One claim over every lane of ``scopes``."""
    shares = [Share(Head(ScopeId(scope), lane, None), quota) for scope in scopes for lane in Lane]
    async with database.hot() as pg:
        return await claim(pg, channel, shares, lease, worker)


async def end_leases(database: Database) -> None:
    """Let every lease have run out a second ago."""
    async with database.hot() as pg:
        await pg.execute(
            "UPDATE outgoing SET claimed_until = now() - interval '1 second' WHERE claim_seq > reported_seq"
        )


def scoped_tenant(scope_id: int = 1, mode: Mode = Mode.LIVE, tenant_id: int = 1) -> ScopedTenant:
    """A tenant that can send mail."""
    sender = EmailSender("hello@campus.example", "Campus")
    tenant = Tenant("campus", "Campus", ("en",), senders=Senders(email=sender))
    return ScopedTenant(ScopeId(scope_id), TenantId(tenant_id), mode, 1, tenant)


async def until(condition: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    """Wait for ``condition`` to become true; fail after a generous ``seconds``."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
