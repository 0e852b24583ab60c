"""From verdict to effect: what one round means for its job. Pure, and the only place that decides it."""

import random
from datetime import timedelta
from typing import assert_never

import msgspec
from msgspec.structs import replace

from shared.delivery.provider import Ended, Folded, Held
from shared.job import JobReason, JobStatus
from shared.retry import UNANSWERED_STEP, UNKNOWN_LIMITS, Terms, wait_unanswered
from shared.store.claim import Claim
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict

SMALLINT_MAX = 32_767


class Effect(msgspec.Struct, frozen=True, gc=False):
    """The job's next state: PENDING comes due again after ``delay`` (None: at once, a release).

    ``counted``: whether the round counts against the limit; ``unanswered`` and ``unknowns`` are the new values.
    ``delivered_any``: some target has it, so that an end without success is SENT ``partial``.
    """

    status: JobStatus
    reason: JobReason
    delay: timedelta | None
    counted: bool
    unanswered: int
    unknowns: int
    delivered_any: bool = False


def effect_of(
    outcome: Verdict | Folded, claim: Claim, terms: Terms, rng: random.Random, step: timedelta = UNANSWERED_STEP
) -> Effect:
    """What ``outcome`` does to the job of ``claim``; ``step`` is the first wait after a silence.

    Expiry is not decided here: the store's clock does that.
    """
    if not isinstance(outcome, Folded):
        return _effect_of_verdict(outcome, claim, terms, rng, step)
    if isinstance(outcome.verdict, Ended):
        ended = outcome.verdict
        return Effect(ended.status, ended.reason, None, bool(outcome.results), 0, claim.unknowns)
    if isinstance(outcome.verdict, Held):
        return replace(held(claim, outcome.verdict.wait), delivered_any=outcome.delivered_any)
    effect = replace(_effect_of_verdict(outcome.verdict, claim, terms, rng, step), delivered_any=outcome.delivered_any)
    if effect.status is JobStatus.FAILED and outcome.delivered_any:
        return replace(effect, status=JobStatus.SENT, reason=JobReason.PARTIAL)
    return effect


def _effect_of_verdict(verdict: Verdict, claim: Claim, terms: Terms, rng: random.Random, step: timedelta) -> Effect:
    rounds = claim.attempts + 1
    match verdict:
        case Delivered():
            return Effect(JobStatus.SENT, JobReason.NONE, None, True, 0, claim.unknowns)
        case Rejected(reason=reason):
            return Effect(JobStatus.FAILED, reason, None, True, 0, claim.unknowns)
        case Deferred() if rounds >= claim.max_attempts:
            return Effect(JobStatus.FAILED, JobReason.EXHAUSTED, None, True, 0, claim.unknowns)
        case Deferred(retry_after=retry_after):
            wait = terms.retry.wait_after(rounds, retry_after, rng)
            return Effect(JobStatus.PENDING, JobReason.NONE, wait, True, 0, claim.unknowns)
        case NoVerdict(handed_over=True):
            return _effect_of_silence_after_handover(claim, terms, rng, step)
        case NoVerdict() | SenderBlocked():
            silences = min(claim.unanswered + 1, SMALLINT_MAX)
            retry_after = verdict.retry_after if isinstance(verdict, NoVerdict) else None
            wait = wait_unanswered(silences, rng, step, retry_after)
            return Effect(JobStatus.PENDING, JobReason.NONE, wait, False, silences, claim.unknowns)
        case _:
            assert_never(verdict)


def released(claim: Claim) -> Effect:
    """The job of ``claim`` was not touched: due again at once, nothing counted."""
    return Effect(JobStatus.PENDING, JobReason.NONE, None, False, claim.unanswered, claim.unknowns)


def held(claim: Claim, wait: timedelta) -> Effect:
    """The job of ``claim`` was not tried: due again after ``wait``, nothing counted."""
    return replace(released(claim), delay=wait)


def failed_unsent(claim: Claim, reason: JobReason) -> Effect:
    """The job of ``claim`` ends without an attempt."""
    return Effect(JobStatus.FAILED, reason, None, False, claim.unanswered, claim.unknowns)


def _effect_of_silence_after_handover(claim: Claim, terms: Terms, rng: random.Random, step: timedelta) -> Effect:
    unknowns = min(claim.unknowns + 1, SMALLINT_MAX)
    if terms.on_unknown == "hold" or unknowns >= UNKNOWN_LIMITS[claim.channel]:
        return Effect(JobStatus.FAILED, JobReason.UNKNOWN_OUTCOME, None, False, claim.unanswered, unknowns)
    wait = wait_unanswered(unknowns, rng, step)
    return Effect(JobStatus.PENDING, JobReason.NONE, wait, False, claim.unanswered, unknowns)
