"""The states of a job and the reasons for them: one table for API, console, command line and documents."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class JobStatus(StrEnum):
    """What became of a job; the word stored in ``outgoing.status``.

    There is no status for "being sent": a claim is ``claimed_until`` in the future, and when it has
    passed any worker may claim the job again. If a process dies, that is the whole recovery.
    """

    PENDING = "PENDING"
    """To be sent at ``due_at``. In: the router, a deferral, a replay. Out: a verdict, expiry, a cancel."""
    SENT = "SENT"
    """A final result was recorded. In: a Delivered verdict. Out: only a bounce."""
    FAILED = "FAILED"
    """We could not; ``reason`` says why. In: a verdict, expiry, a bounce. Out: a replay, or a late Delivered."""
    SKIPPED = "SKIPPED"
    """Somebody decided against it, or there was nothing to ring. In: the router, push. Final."""
    CANCELLED = "CANCELLED"
    """Cancelled while unclaimed. In: a cancel. Out: only a late Delivered."""


class JobReason(StrEnum):
    """Why a job is in its status; the word stored in ``outgoing.reason`` ('' when there is nothing to say)."""

    NONE = ""
    INBOX_ONLY = "inbox_only"
    PARTIAL = "partial"
    PREFERENCE = "preference"
    SUPPRESSED = "suppressed"
    SHADOW = "shadow"
    NOT_ALLOWED_HERE = "not_allowed_here"
    NO_TARGET = "no_target"
    REJECTED = "rejected"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    NO_ADDRESS = "no_address"
    TARGETS_DEAD = "targets_dead"
    TEMPLATE_ERROR = "template_error"
    EXHAUSTED = "exhausted"
    EXPIRED = "expired"
    UNKNOWN_OUTCOME = "unknown_outcome"
    WORKER_LOST = "worker_lost"
    BOUNCED = "bounced"


class Lane(IntEnum):
    """The order in which due jobs of one scope are taken, lower first; a retried job moves to the lane above."""

    TRANSACTIONAL = 0
    TRANSACTIONAL_RETRY = 1
    BULK = 2
    BULK_RETRY = 3


@dataclass(frozen=True, slots=True)
class ReasonText:
    """One reason in words for people: the status it belongs to, what it means and what to do next."""

    status: JobStatus
    meaning: str
    next_step: str


REASONS: dict[JobReason, ReasonText] = {
    JobReason.INBOX_ONLY: ReasonText(
        JobStatus.SENT,
        "There was no phone to ring, but the inbox has it.",
        "Nothing; the recipient can register a phone.",
    ),
    JobReason.PARTIAL: ReasonText(
        JobStatus.SENT,
        "Some of the recipient's targets got it before the limit ended it.",
        "Look at the attempts to see which did not.",
    ),
    JobReason.PREFERENCE: ReasonText(
        JobStatus.SKIPPED,
        "The recipient switched this category off on this channel.",
        "Nothing; it is the recipient's choice.",
    ),
    JobReason.SUPPRESSED: ReasonText(
        JobStatus.SKIPPED,
        "The address is on the suppression list.",
        "Ask the recipient for another address; once the cause is gone, `waybill suppressions remove` ends it.",
    ),
    JobReason.SHADOW: ReasonText(
        JobStatus.SKIPPED,
        "The tenant's delivery mode is shadow: everything is recorded, nothing is sent.",
        "Set the delivery mode to live to send.",
    ),
    JobReason.NOT_ALLOWED_HERE: ReasonText(
        JobStatus.SKIPPED,
        "The tenant's delivery mode is allowlist and the address is not on the list.",
        "Add the address to the list, or set the delivery mode to live.",
    ),
    JobReason.NO_TARGET: ReasonText(
        JobStatus.SKIPPED,
        "The recipient has no registered target and there is no inbox copy.",
        "Register a push target for the recipient.",
    ),
    JobReason.REJECTED: ReasonText(
        JobStatus.FAILED,
        "The provider refused it for good.",
        "Read the attempt's code and error, mend the cause, then retry the job.",
    ),
    JobReason.PAYLOAD_TOO_LARGE: ReasonText(
        JobStatus.FAILED,
        "The rendered content is larger than the provider takes.",
        "Shorten the template or the payload.",
    ),
    JobReason.NO_ADDRESS: ReasonText(
        JobStatus.FAILED,
        "The recipient has no address for this channel.",
        "Retry the job with readdress once another event has given the recipient's address.",
    ),
    JobReason.TARGETS_DEAD: ReasonText(
        JobStatus.FAILED,
        "Every registered target was dead and there is no inbox copy.",
        "Nothing until the recipient registers a target again.",
    ),
    JobReason.TEMPLATE_ERROR: ReasonText(
        JobStatus.FAILED,
        "The content could not be rendered from this payload.",
        "Mend the template in the tenant file, apply it, then retry the job.",
    ),
    JobReason.EXHAUSTED: ReasonText(
        JobStatus.FAILED,
        "The provider kept saying 'not now' until the attempts were used up.",
        "Retry the job once the provider takes it again.",
    ),
    JobReason.EXPIRED: ReasonText(
        JobStatus.FAILED,
        "It could not be sent before it expired.",
        "Retry the job with `extend` if it is still of use. Its attempts say why; without any it was held back.",
    ),
    JobReason.UNKNOWN_OUTCOME: ReasonText(
        JobStatus.FAILED,
        "It may have gone out, but no answer ever came.",
        "Ask the recipient, or retry if a second copy does no harm.",
    ),
    JobReason.WORKER_LOST: ReasonText(
        JobStatus.FAILED,
        "Four workers died while they held this job.",
        "Report it: the job itself may be what kills them.",
    ),
    JobReason.BOUNCED: ReasonText(
        JobStatus.FAILED,
        "It was accepted first and came back later.",
        "Read the receipt; ask the recipient for another address.",
    ),
}
