"""The transaction of one message: decide, render, create the jobs that are missing, mark the events ROUTED."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

import msgspec

from services.router.wishes import Addressed, wishes_of
from shared.errors import UnknownEventType
from shared.event import EventReason, EventStatus
from shared.ids import EventId, ScopeId, format_event_id
from shared.job import JobReason, JobStatus
from shared.logs import get_logger
from shared.recipient import Recipient
from shared.rendering.decide import EventFacts, Planned, Refused, plan
from shared.store.content import encode_content, encode_terms
from shared.store.database import HotConnection
from shared.store.outgoing import MadeJob, NewJob, create_if_missing
from shared.store.routing import End, QueuedEvent, cut_detail, finish_if_queued, lock_queued
from shared.tenant import ScopedTenant
from shared.tenantfile.current import Tenants

log = get_logger()

_RECIPIENT = msgspec.json.Decoder(Recipient)


@dataclass(frozen=True, slots=True)
class Routed:
    """What one transaction did: the jobs it made, and how many events reached which end."""

    made: list[MadeJob]
    ended: Mapping[EventStatus, int]


class Accepted(Protocol):
    """An event as far as finding its tenant goes."""

    @property
    def scope_id(self) -> ScopeId:
        """The scope it was posted to."""

    @property
    def file_version(self) -> int:
        """The tenant's file it was accepted under."""


async def route(pg: HotConnection, tenants: Tenants, event_ids: Sequence[EventId]) -> Routed:
    """Route those of ``event_ids`` that are still QUEUED; inside the caller's transaction.

    Five statements at most, however many events.
    """
    events = await lock_queued(pg, event_ids)
    if not events:
        return Routed([], {})
    jobs: list[NewJob] = []
    ends: list[End] = []
    addressed = [Addressed(event.scope_id, await tenant_for(tenants, event), _facts(event)) for event in events]
    wishes = await wishes_of(pg, addressed)
    for event, one in zip(events, addressed, strict=True):
        try:
            decisions = plan(one.tenant, one.facts, wishes[event.event_id])
            jobs += [_new_job(event, one.tenant, decided) for decided in decisions]
        except UnknownEventType:
            log.warning("router.unknown_event_type", event_id=format_event_id(event.event_id))
            detail = f"version {one.tenant.file_version} of the tenant's file has no event type {event.event_type}"
            ends.append(End(event.event_id, EventStatus.FAILED, EventReason.UNKNOWN_EVENT_TYPE, cut_detail(detail)))
        else:
            ends.append(End(event.event_id, EventStatus.ROUTED))
        # Rendering keeps the loop to itself: between two events everybody else gets a turn.
        await asyncio.sleep(0)
    made = await create_if_missing(pg, jobs) if jobs else []
    return Routed(made, await finish_if_queued(pg, ends))


async def tenant_for(tenants: Tenants, event: Accepted) -> ScopedTenant:
    """The tenant of ``event``, under the file it was accepted under or a newer one.

    Raises LookupError when this process has no such file, also not after asking for it.
    """
    tenant = tenants.of_scope(event.scope_id)
    if tenant is None or tenant.file_version < event.file_version:
        await tenants.refresh()
        tenant = tenants.of_scope(event.scope_id)
    if tenant is None or tenant.file_version < event.file_version:
        raise LookupError(f"scope {event.scope_id} has no file of version {event.file_version} here")
    return tenant


def _facts(event: QueuedEvent) -> EventFacts:
    return EventFacts(
        event.event_id,
        event.event_type,
        _RECIPIENT.decode(event.recipient),
        msgspec.json.decode(event.payload),
        event.received_at,
        event.expires_at,
        event.send_at,
    )


def _new_job(event: QueuedEvent, tenant: ScopedTenant, decided: Planned | Refused) -> NewJob:
    body: str | None = None
    detail: str | None = None
    match decided:
        case Planned():
            status, reason, body = JobStatus.PENDING, JobReason.NONE, encode_content(decided.content)
        case Refused():
            status, reason, detail = decided.status, decided.reason, cut_detail(decided.detail)
            log.info("router.refused", channel=decided.channel, status=status, reason=reason, detail=decided.detail)
        case _:
            assert_never(decided)
    return NewJob(
        event.event_id,
        event.scope_id,
        decided.channel,
        status,
        reason,
        decided.lane,
        decided.terms.retry.attempts,
        decided.expires_at,
        event.event_type,
        decided.recipient_id,
        tenant.file_version,
        encode_terms(decided.terms),
        body,
        max(event.received_at, event.send_at or event.received_at),
        detail,
    )


def scopes_to_wake(made: Sequence[MadeJob]) -> dict[str, set[ScopeId]]:
    """Per channel, the scopes that have new jobs to send."""
    scopes: dict[str, set[ScopeId]] = {}
    for job in made:
        if job.status is JobStatus.PENDING:
            scopes.setdefault(job.channel, set()).add(job.scope_id)
    return scopes
