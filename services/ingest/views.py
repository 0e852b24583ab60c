"""From rows to the shapes of the API."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from services.ingest.schemas import AttemptOut, EventOut, JobOut, ListedJobOut, ReceiptOut, WaitingOut
from services.ingest.waits import Waiting, waiting_of
from shared.channel import Channel
from shared.event import EVENT_REASONS, derive_outcome
from shared.ids import EventId, format_attempt_id, format_event_id, format_job_id
from shared.job import REASONS, JobStatus
from shared.store.events import StoredEvent
from shared.store.jobs import ListedJob, StoredAttempt, StoredJob
from shared.store.receipts import StoredReceipt
from shared.store.waits import StandingPause
from shared.waiting import WAITS
from shared.web.instant import write_instant


def show_event(event: StoredEvent, jobs: Sequence[StoredJob]) -> EventOut:
    """``event`` with its ``jobs``, without recipient and payload."""
    words = EVENT_REASONS.get(event.reason)
    return EventOut(
        id=format_event_id(event.event_id),
        event_type=event.event_type,
        idempotency_key=event.idempotency_key,
        ref=event.ref,
        status=event.status,
        reason=event.reason or None,
        meaning=None if words is None else words.meaning,
        next_step=None if words is None else words.next_step,
        detail=event.detail,
        outcome=derive_outcome(event.status, [job.status for job in jobs]),
        received_at=write_instant(event.received_at),
        send_at=None if event.send_at is None else write_instant(event.send_at),
        expires_at=write_instant(event.expires_at),
        routed_at=None if event.routed_at is None else write_instant(event.routed_at),
        file_version=event.file_version,
        request_id=event.request_id,
        jobs=[_show_job(event.event_id, job) for job in jobs],
    )


def show_whole_event(
    event: StoredEvent,
    jobs: Sequence[StoredJob],
    receipts: Mapping[Channel, Sequence[StoredReceipt]],
    pauses: Sequence[StandingPause],
) -> EventOut:
    """``event`` with its ``jobs``, their ``receipts`` and what they wait for, recipient and payload."""
    shown = show_event(event, jobs)
    now = datetime.now(UTC)
    for stored, job in zip(jobs, shown.jobs, strict=True):
        waiting = waiting_of(stored, event.event_type, pauses, now)
        job.waits_for = None if waiting is None else _show_waiting(waiting)
        job.receipts = [_show_receipt(one) for one in receipts.get(Channel(job.channel), ())]
    shown.recipient = msgspec.Raw(event.recipient.encode())
    shown.payload = msgspec.Raw(event.payload.encode())
    return shown


def show_listed_event(event: StoredEvent, jobs: Sequence[StoredJob]) -> EventOut:
    """``event`` with its ``jobs`` and recipient."""
    shown = show_event(event, jobs)
    shown.recipient = msgspec.Raw(event.recipient.encode())
    return shown


def show_listed_job(listed: ListedJob) -> ListedJobOut:
    """A job with what a list says of its event."""
    return ListedJobOut(
        **msgspec.structs.asdict(_show_job(listed.event_id, listed.job)),
        event_id=format_event_id(listed.event_id),
        event_type=listed.event_type,
        ref=listed.ref,
        recipient_id=listed.recipient_id,
    )


def _show_job(event_id: EventId, job: StoredJob) -> JobOut:
    words = REASONS.get(job.reason)
    return JobOut(
        id=format_job_id(event_id, job.channel),
        channel=job.channel,
        status=job.status,
        reason=job.reason or None,
        meaning=None if words is None else words.meaning,
        next_step=None if words is None else words.next_step,
        detail=job.detail,
        created_at=write_instant(job.created_at),
        due_at=write_instant(job.due_at) if job.status is JobStatus.PENDING else None,
        expires_at=write_instant(job.expires_at),
        finished_at=None if job.finished_at is None else write_instant(job.finished_at),
        attempts=[_show_attempt(event_id, job, attempt) for attempt in job.attempts],
    )


def _show_waiting(waiting: Waiting) -> WaitingOut:
    words = WAITS[waiting.wait]
    return WaitingOut(
        wait=waiting.wait,
        meaning=words.meaning,
        next_step=words.next_step,
        detail=waiting.detail,
        since=None if waiting.since is None else write_instant(waiting.since),
        until=None if waiting.until is None else write_instant(waiting.until),
    )


def _show_receipt(receipt: StoredReceipt) -> ReceiptOut:
    return ReceiptOut(
        kind=receipt.kind,
        cause=receipt.cause,
        code=receipt.code,
        detail=receipt.detail,
        source=receipt.source,
        received_at=write_instant(receipt.received_at),
        applied_at=None if receipt.applied_at is None else write_instant(receipt.applied_at),
        effect=receipt.effect or None,
    )


def _show_attempt(event_id: EventId, job: StoredJob, attempt: StoredAttempt) -> AttemptOut:
    return AttemptOut(
        id=format_attempt_id(event_id, job.channel, attempt.claim_seq, attempt.target_id),
        number=attempt.number,
        provider=attempt.provider,
        verdict=attempt.verdict,
        reason=attempt.reason or None,
        code=attempt.code,
        error=attempt.error,
        started_at=write_instant(attempt.started_at),
        took_ms=attempt.took_ms,
        applied=attempt.applied,
        late=attempt.late,
        possible_duplicate=attempt.possible_duplicate,
    )
