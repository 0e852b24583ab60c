"""Many targets, one job: what their answers come to. Pure."""

from collections.abc import Sequence
from datetime import timedelta
from typing import assert_never

from services.push.targets import Earlier
from shared.delivery.provider import Ended, Folded, Held, TargetResult
from shared.job import JobReason, JobStatus
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict

_INBOX_ONLY = Ended(JobStatus.SENT, JobReason.INBOX_ONLY)
_TARGETS_DEAD = Ended(JobStatus.FAILED, JobReason.TARGETS_DEAD)
_NO_TARGET = Ended(JobStatus.SKIPPED, JobReason.NO_TARGET)


def fold(results: Sequence[TargetResult], earlier: Earlier, *, entry_exists: bool, held: Sequence[Held] = ()) -> Folded:
    """What this round's ``results`` mean for the job, after what ``earlier`` rounds reached.

    One target that may still be reached keeps the job open (also one that was ``held``); else one that was reached
    settles it; else a living one that refused the message fails it. With nothing to ring, the inbox's entry decides.
    """
    verdicts = [result.verdict for result in results]
    delivered = next((verdict for verdict in verdicts if isinstance(verdict, Delivered)), None)
    delivered_any = delivered is not None or earlier.delivered
    if held and all(isinstance(verdict, Delivered | Rejected) for verdict in verdicts):
        return Folded(min(held, key=lambda one: one.wait), tuple(results), delivered_any)
    return Folded(_decide(verdicts, delivered, earlier, entry_exists), tuple(results), delivered_any)


def _decide(
    verdicts: Sequence[Verdict],
    delivered: Delivered | None,
    earlier: Earlier,
    entry_exists: bool,  # noqa: FBT001 - a yes or no by nature
) -> Verdict | Ended:
    open_ones = [verdict for verdict in verdicts if not isinstance(verdict, Delivered | Rejected)]
    if open_ones:
        return max(open_ones, key=_patience)
    if delivered is not None:
        return delivered
    if earlier.delivered:
        return Delivered()
    refusals = [verdict for verdict in verdicts if isinstance(verdict, Rejected) and not verdict.target_dead]
    if earlier.refusal is not None:
        refusals.append(earlier.refusal)
    if refusals:
        return max(refusals, key=lambda refusal: refusal.reason is not JobReason.REJECTED)
    if entry_exists:
        return _INBOX_ONLY
    return _TARGETS_DEAD if verdicts or earlier.rung else _NO_TARGET


def _patience(verdict: Verdict) -> tuple[int, timedelta]:
    """How long a job lives under ``verdict``: by its kind, then by the wait it asks for."""
    match verdict:
        case NoVerdict(handed_over=True):
            # Not the most patient, but it must not be outvoted: a second copy has to be bounded and flagged.
            return 3, timedelta()
        case SenderBlocked():
            return 2, timedelta()
        case NoVerdict(retry_after=retry_after):
            return 1, retry_after or timedelta()
        case Deferred(retry_after=retry_after):
            return 0, retry_after or timedelta()
        case Delivered() | Rejected():
            return -1, timedelta()
        case _:
            assert_never(verdict)
