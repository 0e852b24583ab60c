"""The transaction of one message: decide, render, create the jobs that are missing, mark the events ROUTED."""

from collections.abc import Sequence
from typing import assert_never

import msgspec

from shared.errors import UnknownEventType
from shared.ids import EventId, ScopeId
from shared.job import JobReason, JobStatus
from shared.logs import get_logger
from shared.recipient import Recipient
from shared.rendering.decide import EventFacts, Planned, Refused, plan
from shared.store.content import encode_content, encode_terms
from shared.store.database import HotConnection
from shared.store.outgoing import MadeJob, NewJob, create_if_missing
from shared.store.routing import QueuedEvent, fail_if_queued, lock_queued, mark_routed
from shared.tenant import ScopedTenant
from shared.tenantfile.current import Tenants

log = get_logger()

_RECIPIENT = msgspec.json.Decoder(Recipient)


async def route(pg: HotConnection, tenants: Tenants, event_ids: Sequence[EventId]) -> list[MadeJob]:
    """The jobs created for those of ``event_ids`` that are still QUEUED; inside the caller's transaction."""
    events = await lock_queued(pg, event_ids)
    jobs: list[NewJob] = []
    unknown: list[EventId] = []
    for event in events:
        tenant = await _tenant_for(tenants, event)
        try:
            jobs += [_new_job(event, tenant, decided) for decided in plan(tenant, _facts(event))]
        except UnknownEventType:
            unknown.append(event.event_id)
    made = await create_if_missing(pg, jobs) if jobs else []
    # Last, because every router in the same scope counts on the same rows of the ledger.
    if unknown:
        log.warning("router.unknown_event_type", count=len(unknown))
        await fail_if_queued(pg, unknown, "unknown_event_type")
    await mark_routed(pg, [event.event_id for event in events if event.event_id not in unknown])
    return made


async def _tenant_for(tenants: Tenants, event: QueuedEvent) -> ScopedTenant:
    tenant = tenants.of_scope(event.scope_id)
    if tenant is None or tenant.file_version < event.file_version:
        # Accepted under a newer file than this process has seen.
        await tenants.refresh()
        tenant = tenants.of_scope(event.scope_id)
    if tenant is None:
        raise LookupError(f"scope {event.scope_id} has no tenant file")
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
    match decided:
        case Planned():
            status, reason, body = JobStatus.PENDING, JobReason.NONE, encode_content(decided.content)
        case Refused():
            status, reason = decided.status, decided.reason
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
    )


def scopes_to_wake(made: Sequence[MadeJob]) -> dict[str, set[ScopeId]]:
    """Per channel, the scopes that have new jobs to send."""
    scopes: dict[str, set[ScopeId]] = {}
    for job in made:
        if job.status is JobStatus.PENDING:
            scopes.setdefault(job.channel, set()).add(job.scope_id)
    return scopes
