"""One attempt, as a pipeline of named steps: is it still wanted, may it still start, send, say what happened."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast

import msgspec

from shared.delivery.effect import Effect, effect_of, failed_unsent, held, released
from shared.delivery.gate import Gate
from shared.delivery.limit import TimeLimit
from shared.delivery.provider import CUT_OFF, Folded, Held, Parcel, Provider
from shared.delivery.record import log_attempted, report_of, rows_of
from shared.delivery.simulator import NAME as SIMULATOR
from shared.delivery.simulator import simulate
from shared.ids import ScopeId, format_job_id
from shared.job import JobReason
from shared.logs import get_logger
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.claim import Claim
from shared.store.content import decode_content, decode_terms
from shared.store.settle import Report
from shared.tenant import Mode, ScopedTenant
from shared.verdict import NoVerdict, Verdict

log = get_logger()

LOST_LIMIT = 4
"""A job that four workers died over is not given to a fifth."""
EVENT_TYPE_HOLD = timedelta(seconds=60)
"""How often a job of a paused event type is looked at; `resume` makes all of them due at once."""
_DEFAULT_TERMS = {channel: Terms(policy) for channel, policy in DEFAULT_POLICIES.items()}


@dataclass(frozen=True, slots=True)
class Conditions:
    """What every attempt of one worker goes by. ``deadline`` checks use the monotonic clock, in seconds."""

    provider: Provider
    gate: Gate
    tenant_of: Callable[[ScopeId], ScopedTenant | None]
    limit: TimeLimit
    unanswered_step: timedelta
    rng: random.Random


async def attempt(claim: Claim, deadline: float, stop: asyncio.Event, conditions: Conditions) -> Report:
    """What one claim ended in: an attempt with its verdict, or a release, or an end without an attempt."""
    early = _precondition(claim, deadline, stop)
    if early is not None:
        return report_of(claim, early)
    terms = _DEFAULT_TERMS[claim.channel] if claim.terms is None else decode_terms(claim.terms)
    if claim.lost > 0 and terms.on_unknown == "hold":
        # Whoever held it before may have sent it: nobody can say, and twice is worse than never.
        return report_of(claim, failed_unsent(claim, JobReason.UNKNOWN_OUTCOME))
    tenant = conditions.tenant_of(claim.scope_id)
    if tenant is None:
        return report_of(
            claim, effect_of(NoVerdict(handed_over=False), claim, terms, conditions.rng, conditions.unanswered_step)
        )
    waits = _paused(claim, tenant, conditions.gate)
    if waits is not None:
        return report_of(claim, waits)
    parcel = _parcel(claim, tenant, conditions.gate)
    if parcel is None:
        return report_of(claim, failed_unsent(claim, JobReason.REJECTED))
    started_at, began = datetime.now(UTC), time.monotonic()
    outcome = await _send(conditions, parcel)
    took = timedelta(seconds=time.monotonic() - began)
    if isinstance(outcome, Held):
        return report_of(claim, held(claim, outcome.wait))
    if _was_stopped_in_time(outcome):
        return report_of(claim, released(claim))
    effect = effect_of(outcome, claim, terms, conditions.rng, conditions.unanswered_step)
    name = SIMULATOR if tenant.mode is Mode.TEST else conditions.provider.name
    rows = rows_of(parcel, name, outcome, started_at, took)
    for row in rows:
        log_attempted(claim, parcel, row, effect)
    return report_of(claim, effect, rows)


def _precondition(claim: Claim, deadline: float, stop: asyncio.Event) -> Effect | None:
    """Why this claim is not to be attempted, or None."""
    if claim.expired:
        return failed_unsent(claim, JobReason.EXPIRED)
    if claim.lost >= LOST_LIMIT:
        return failed_unsent(claim, JobReason.WORKER_LOST)
    if stop.is_set() or time.monotonic() >= deadline:
        return released(claim)
    return None


def _was_stopped_in_time(outcome: Verdict | Folded) -> bool:
    """Whether the worker had to stop and cut the attempt off before anything had left us: as if it had not begun."""
    verdicts = [one.verdict for one in outcome.results] if isinstance(outcome, Folded) else [outcome]
    return bool(verdicts) and all(
        isinstance(one, NoVerdict) and one.code == CUT_OFF and not one.handed_over for one in verdicts
    )


def _paused(claim: Claim, tenant: ScopedTenant, gate: Gate) -> Effect | None:
    """What waits because an operator said so between the claim and now, or for all of its event type; or None."""
    if gate.pauses.is_paused(tenant.tenant_id):
        return released(claim)
    if gate.pauses.is_event_type_paused(tenant.tenant_id, claim.event_type):
        return held(claim, EVENT_TYPE_HOLD)
    return None


async def _send(conditions: Conditions, parcel: Parcel) -> Verdict | Folded | Held:
    outcome = await _call(conditions, parcel)
    circuit = parcel.progress.circuit
    if circuit is None or isinstance(outcome, Folded | Held):
        return outcome
    return await conditions.gate.told(circuit, parcel.tenant.tenant_id, outcome, parcel.unanswered)


async def _call(conditions: Conditions, parcel: Parcel) -> Verdict | Folded | Held:
    task = cast("asyncio.Task[object]", asyncio.current_task())
    conditions.limit.begin(task)
    try:
        if parcel.tenant.mode is Mode.TEST:
            return await simulate(parcel)
        return await conditions.provider.send(parcel)
    except asyncio.CancelledError:
        # Out of time; or the worker has to stop in time, and still wants to know how far it came.
        code = "attempt_timeout" if conditions.limit.end(task) else CUT_OFF
        return NoVerdict(handed_over=parcel.progress.handed_over, code=code)
    except Exception as exc:  # one of the two broad ones: whatever a provider does, its job must go on
        log.exception("delivery.provider_failed", job_id=format_job_id(parcel.event_id, parcel.channel))
        return NoVerdict(handed_over=True, code="provider_failed", error=type(exc).__name__)
    finally:
        conditions.limit.end(task)


def _parcel(claim: Claim, tenant: ScopedTenant, gate: Gate) -> Parcel | None:
    if claim.body is None or claim.recipient_id is None:
        return None
    try:
        content = decode_content(claim.channel, claim.body)
    except msgspec.MsgspecError:
        log.exception("delivery.content_unreadable", job_id=format_job_id(claim.event_id, claim.channel))
        return None
    return Parcel(
        claim.job_id,
        claim.event_id,
        claim.scope_id,
        claim.channel,
        claim.recipient_id,
        content,
        tenant,
        attempt=claim.attempts + 1,
        possible_duplicate=claim.may_repeat or claim.unknowns + claim.lost > 0,
        unanswered=claim.unanswered,
        gate=gate,
    )
