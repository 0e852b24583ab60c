"""What one attempt told us. Providers return verdicts, they do not raise."""

from dataclasses import dataclass
from datetime import timedelta

from shared.job import JobReason


@dataclass(frozen=True, slots=True)
class Delivered:
    """The provider has taken it; ``provider_id`` is its name for it, where it gave one."""

    provider_id: str | None = None
    code: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """It will never be taken; ``target_dead`` when the address or token itself is what died."""

    reason: JobReason = JobReason.REJECTED
    target_dead: bool = False
    code: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Deferred:
    """Not now, says the provider of *this message*; ``retry_after`` when the provider said how long to wait."""

    retry_after: timedelta | None = None
    code: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """Nobody answered, or the service itself was down.

    ``handed_over``: the message had left us completely, so it may have been taken all the same. ``refused``: the
    service did answer, but would not work (a 5xx, a 421); when it does work for others, that is a deferral.
    ``retry_after``: how long it then asked to be left alone.
    """

    handed_over: bool
    code: str | None = None
    error: str | None = None
    refused: bool = False
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class SenderBlocked:
    """The provider refuses *us*: ``part`` is ``relay`` (credentials, our address, quota) or ``sender`` (From, key)."""

    part: str
    code: str | None = None
    error: str | None = None


Verdict = Delivered | Rejected | Deferred | NoVerdict | SenderBlocked

VERDICT_WORDS = {
    Delivered: "delivered",
    Rejected: "rejected",
    Deferred: "deferred",
    NoVerdict: "no_verdict",
    SenderBlocked: "sender_blocked",
}
"""The words stored in ``attempts.verdict``; ``lost`` (a claim that never reported) is written by the claim itself."""
