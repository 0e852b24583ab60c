"""One attempt, as a pipeline of named steps: is it still wanted, may it still start, send, say what happened."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from shared.delivery.effect import Effect, effect_of, failed_unsent, released
from shared.delivery.provider import Parcel, Provider
from shared.ids import ScopeId, format_job_id
from shared.job import JobReason
from shared.logs import get_logger
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.claim import Claim
from shared.store.content import decode_content, decode_terms
from shared.store.settle import AttemptRow, Report
from shared.tenant import ScopedTenant
from shared.verdict import VERDICT_WORDS, Delivered, NoVerdict, Rejected, Verdict

log = get_logger()

LOST_LIMIT = 4
"""A job that four workers died over is not given to a fifth."""
ERROR_LENGTH = 1024
_DEFAULT_TERMS = {channel: Terms(policy) for channel, policy in DEFAULT_POLICIES.items()}


@dataclass(frozen=True, slots=True)
class Conditions:
    """What every attempt of one worker goes by. ``deadline`` checks use the monotonic clock, in seconds."""

    provider: Provider
    tenant_of: Callable[[ScopeId], ScopedTenant | None]
    attempt_timeout: timedelta
    rng: random.Random


async def attempt(claim: Claim, deadline: float, stop: asyncio.Event, conditions: Conditions) -> Report:
    """What one claim ended in: an attempt with its verdict, or a release, or an end without an attempt."""
    early = _precondition(claim, deadline, stop)
    if early is not None:
        return _report(claim, early, ())
    terms = _DEFAULT_TERMS[claim.channel] if claim.terms is None else decode_terms(claim.terms)
    tenant = conditions.tenant_of(claim.scope_id)
    if tenant is None:
        return _report(claim, effect_of(NoVerdict(handed_over=False), claim, terms, conditions.rng), ())
    parcel = _parcel(claim, tenant)
    if parcel is None:
        return _report(claim, failed_unsent(claim, JobReason.REJECTED), ())
    started_at, began = datetime.now(UTC), time.monotonic()
    verdict = await _send(conditions, parcel)
    took = timedelta(seconds=time.monotonic() - began)
    effect = effect_of(verdict, claim, terms, conditions.rng)
    _log_attempted(claim, conditions.provider.name, verdict, effect, took)
    return _report(claim, effect, (_attempt_row(parcel, conditions.provider.name, verdict, started_at, took),))


def _precondition(claim: Claim, deadline: float, stop: asyncio.Event) -> Effect | None:
    """Why this claim is not to be attempted, or None."""
    if claim.expired:
        return failed_unsent(claim, JobReason.EXPIRED)
    if claim.lost >= LOST_LIMIT:
        return failed_unsent(claim, JobReason.WORKER_LOST)
    if stop.is_set() or time.monotonic() >= deadline:
        return released(claim)
    return None


async def _send(conditions: Conditions, parcel: Parcel) -> Verdict:
    try:
        async with asyncio.timeout(conditions.attempt_timeout.total_seconds()):
            return await conditions.provider.send(parcel)
    except TimeoutError:
        return NoVerdict(handed_over=parcel.progress.handed_over, code="attempt_timeout")
    except asyncio.CancelledError:
        # The worker cancels an attempt only to stop in time, and still wants to know how far it came.
        return NoVerdict(handed_over=parcel.progress.handed_over, code="cut_off")
    except Exception as exc:  # one of the two broad ones: whatever a provider does, its job must go on
        log.exception("delivery.provider_failed", job_id=format_job_id(parcel.event_id, parcel.channel))
        return NoVerdict(handed_over=True, code="provider_failed", error=type(exc).__name__)


def _parcel(claim: Claim, tenant: ScopedTenant) -> Parcel | None:
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
        possible_duplicate=claim.unknowns + claim.lost > 0,
    )


def _attempt_row(parcel: Parcel, provider: str, verdict: Verdict, started_at: datetime, took: timedelta) -> AttemptRow:
    return AttemptRow(
        target_id=0,
        provider=provider,
        verdict=VERDICT_WORDS[type(verdict)],
        reason=verdict.reason if isinstance(verdict, Rejected) else _handover_word(verdict),
        code=_clean(verdict.code, 64),
        error=_clean(verdict.error, ERROR_LENGTH),
        provider_id=_clean(verdict.provider_id, 255) if isinstance(verdict, Delivered) else None,
        started_at=started_at,
        took=took,
        possible_duplicate=parcel.possible_duplicate,
    )


def _handover_word(verdict: Verdict) -> str:
    if not isinstance(verdict, NoVerdict):
        return ""
    return "after_handover" if verdict.handed_over else "before_handover"


def _clean(text: str | None, length: int) -> str | None:
    """``text`` as Postgres takes it: no control characters, no lone surrogates, at most ``length`` characters."""
    if text is None:
        return None
    printable = "".join(char if char >= " " or char == "\n" else " " for char in text[: length * 2])
    return printable.encode("utf-8", "replace").decode()[:length]


def _report(claim: Claim, effect: Effect, attempts: tuple[AttemptRow, ...]) -> Report:
    return Report(
        claim.job_id,
        claim.claim_seq,
        effect.status,
        effect.reason,
        effect.delay,
        effect.counted,
        effect.unanswered,
        effect.unknowns,
        attempts,
    )


def _log_attempted(claim: Claim, provider: str, verdict: Verdict, effect: Effect, took: timedelta) -> None:
    log.info(
        "delivery.attempted",
        job_id=format_job_id(claim.event_id, claim.channel),
        channel=claim.channel,
        scope_id=claim.scope_id,
        attempt=claim.claim_seq,
        provider=provider,
        verdict=VERDICT_WORDS[type(verdict)],
        code=verdict.code,
        took_ms=int(took.total_seconds() * 1000),
        status=effect.status,
        reason=effect.reason,
        again_in_s=None if effect.delay is None else round(effect.delay.total_seconds(), 1),
    )
