"""The states of an event, each with its biography."""

from dataclasses import dataclass
from enum import StrEnum


class EventStatus(StrEnum):
    """Where an event is on its way to becoming jobs; the word stored in ``events.status``."""

    SCHEDULED = "SCHEDULED"
    """Accepted, to be routed at ``send_at``. In: ingest. Out: the republisher's promotion, or a cancel.
    If a process dies here nothing is lost: the row is found again by its ``send_at``."""
    QUEUED = "QUEUED"
    """Accepted, not yet routed. In: ingest, or promotion. Out: the router, or a cancel.
    If the announcement is lost, the republisher announces the event again."""
    ROUTED = "ROUTED"
    """Its jobs exist. In: the router, in the transaction that inserts them. Final."""
    FAILED = "FAILED"
    """It could not be routed; ``reason`` says why. In: the router after its last try. Final."""
    CANCELLED = "CANCELLED"
    """Cancelled before it was routed. In: a cancel. Final."""


class EventReason(StrEnum):
    """Why an event is FAILED; the word stored in ``events.reason`` ('' in every other status)."""

    NONE = ""
    UNKNOWN_EVENT_TYPE = "unknown_event_type"
    ROUTING_FAILED = "routing_failed"


@dataclass(frozen=True, slots=True)
class EventReasonText:
    """One reason in words for people: what it means and what to do next."""

    meaning: str
    next_step: str


EVENT_REASONS: dict[str, EventReasonText] = {
    EventReason.UNKNOWN_EVENT_TYPE: EventReasonText(
        "When the event was to be routed, the tenant's file had no such event type any more.",
        "Put the event type back into the tenant file and apply it, then post the event again.",
    ),
    EventReason.ROUTING_FAILED: EventReasonText(
        "The event could not be made into jobs, five times, each time alone.",
        "Report it with the event's id: the router's log says under that id what went wrong.",
    ),
}


class Outcome(StrEnum):
    """What became of an event, derived from its own state and its jobs'."""

    IN_PROGRESS = "in_progress"
    """Something is still to be done."""
    SENT = "sent"
    """Every job that was not skipped is SENT."""
    PARTLY_SENT = "partly_sent"
    """At least one job is SENT and at least one FAILED or CANCELLED."""
    FAILED = "failed"
    """Nothing was sent and something FAILED."""
    SKIPPED = "skipped"
    """Every channel was skipped."""
    CANCELLED = "cancelled"
    """Nothing was sent and what remained was cancelled."""


def derive_outcome(status: EventStatus, job_statuses: list[str]) -> Outcome:
    """The outcome of an event in ``status`` whose jobs have ``job_statuses``."""
    match status:
        case EventStatus.SCHEDULED | EventStatus.QUEUED:
            return Outcome.IN_PROGRESS
        case EventStatus.FAILED:
            return Outcome.FAILED
        case EventStatus.CANCELLED:
            return Outcome.CANCELLED
        case EventStatus.ROUTED:
            return _outcome_of_jobs(set(job_statuses))


def _outcome_of_jobs(statuses: set[str]) -> Outcome:
    if "PENDING" in statuses:
        return Outcome.IN_PROGRESS
    if "SENT" in statuses:
        return Outcome.PARTLY_SENT if statuses & {"FAILED", "CANCELLED"} else Outcome.SENT
    if "FAILED" in statuses:
        return Outcome.FAILED
    return Outcome.CANCELLED if "CANCELLED" in statuses else Outcome.SKIPPED
