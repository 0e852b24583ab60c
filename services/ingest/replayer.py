"""Replaying jobs: what never had content is rendered now, under the tenant's file of the moment."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import msgspec

from shared.errors import UnknownEventType
from shared.ids import JobId, ScopeId
from shared.recipient import Recipient
from shared.rendering.decide import EventFacts, Planned, Refused, plan
from shared.store.content import encode_content, encode_terms
from shared.store.database import Database
from shared.store.job_lists import JobKey
from shared.store.replay import Replayed, ReplayOptions, ReplayResult, judge_replay, lock_jobs, replay_if_failed
from shared.store.unrendered import LateContent, Unrendered, find_unrendered, give_content_if_missing
from shared.tenant import ScopedTenant
from shared.tenantfile.current import Tenants

_RECIPIENT = msgspec.json.Decoder(Recipient)


@dataclass(frozen=True, slots=True)
class _Rendered:
    """What was rendered late, and of the other jobs why there is still nothing to send."""

    contents: list[LateContent] = field(default_factory=list)
    refusals: dict[JobId, str] = field(default_factory=dict)


class Replayer:
    """Replays jobs of one scope, or says what would come of it; each call bounded by ``within`` for Postgres."""

    def __init__(self, database: Database, tenants: Tenants, within: timedelta) -> None:
        self.database = database
        self.within = within
        self._tenants = tenants

    async def judge(self, scope_id: ScopeId, keys: Sequence[JobKey], options: ReplayOptions) -> list[ReplayResult]:
        """What ``replay`` would answer for each of ``keys``."""
        rendered = await self._render(scope_id, keys, options)
        async with self.database.hot(self.within) as pg:
            return await judge_replay(pg, scope_id, keys, options, [one.job_id for one in rendered.contents])

    async def replay(
        self, scope_id: ScopeId, keys: Sequence[JobKey], options: ReplayOptions
    ) -> tuple[list[Replayed], dict[JobId, str]]:
        """What came of each of ``keys``, in one transaction; and why there is still nothing to send for some."""
        rendered = await self._render(scope_id, keys, options)
        async with self.database.hot(self.within) as pg, pg.transaction():
            await lock_jobs(pg, scope_id, keys)
            if rendered.contents:
                await give_content_if_missing(pg, scope_id, rendered.contents)
            return await replay_if_failed(pg, scope_id, keys, options), rendered.refusals

    async def _render(self, scope_id: ScopeId, keys: Sequence[JobKey], options: ReplayOptions) -> _Rendered:
        async with self.database.hot(self.within) as pg:
            found = await find_unrendered(pg, scope_id, keys)
        rendered, tenant = _Rendered(), self._tenants.of_scope(scope_id)
        if tenant is None:
            return rendered
        # No connection is held meanwhile, and between two jobs everybody else gets a turn.
        for one in found:
            made = _write(tenant, one, options)
            if isinstance(made, LateContent):
                rendered.contents.append(made)
            else:
                rendered.refusals[one.job_id] = made
            await asyncio.sleep(0)
        return rendered


def _write(tenant: ScopedTenant, job: Unrendered, options: ReplayOptions) -> LateContent | str:
    """The content of ``job``, or why there is none."""
    recipient = _RECIPIENT.decode(job.recipient)
    if options.readdress and job.last_address is not None:
        recipient = replace(recipient, email=job.last_address)
    payload = msgspec.json.decode(job.payload)
    facts = EventFacts(job.event_id, job.event_type, recipient, payload, job.received_at, job.expires_at, job.send_at)
    try:
        decided = next((one for one in plan(tenant, facts) if one.channel is job.channel), None)
    except UnknownEventType as exc:
        return str(exc)
    match decided:
        case Planned():
            return LateContent(
                job.job_id,
                job.channel,
                job.event_type,
                recipient.id,
                tenant.file_version,
                encode_terms(decided.terms),
                encode_content(decided.content),
            )
        case Refused():
            return decided.detail
        case None:
            return f"the event type {job.event_type} does not go out on {job.channel} any more"
