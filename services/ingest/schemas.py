"""The shapes of the API: what products post, and what they get back."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from shared.recipient import LONGEST_ID
from shared.web.instant import Instant

LONGEST_KEY = 255
LONGEST_REF = 255
LONGEST_NAME = 200

Key = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY)]
Ref = Annotated[str, Meta(min_length=1, max_length=LONGEST_REF, description="Say booking:bk_42; indexed and echoed.")]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]


class RecipientIn(Struct, forbid_unknown_fields=True):
    """The person an event is for. What is given here serves this event only."""

    id: Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)]
    name: Name | None = None
    email: str | None = None
    locale: str | None = None
    timezone: str | None = None


class EventIn(Struct, forbid_unknown_fields=True):
    """An event as a product posts it. Null is the same as absent.

    ``recipient`` must be given, unless the tenant's file fixes whom events of this type go to: then it must not.
    """

    event_type: str
    payload: dict[str, Any]
    recipient: RecipientIn | None = None
    idempotency_key: Key | None = None
    ref: Ref | None = None
    send_at: Instant | None = None
    expires_at: Instant | None = None


class AttemptOut(Struct):
    """One provider call; verdict ``lost`` is a worker that died with the job in its hands."""

    id: str
    number: int
    provider: str
    verdict: str
    reason: str | None
    code: str | None
    error: str | None
    started_at: str
    took_ms: int
    applied: bool
    late: bool
    possible_duplicate: bool


class ReceiptOut(Struct):
    """What came after a mail was taken: a bounce, or a complaint.

    ``cause`` is what it blames, ``code`` and ``detail`` are the reporter's words. ``effect`` is null while it waits for
    its job to be settled.
    """

    kind: str
    cause: str
    code: str | None
    detail: str | None
    source: str
    received_at: str
    applied_at: str | None
    effect: str | None


class WaitingOut(Struct):
    """What a PENDING job waits for, and what to do about it; ``detail`` has the operator's or the provider's words.

    ``until`` is when it is looked at again, or the pause ends; null: when somebody ends it.
    """

    wait: str
    meaning: str
    next_step: str
    detail: str | None
    since: str | None
    until: str | None


class JobOut(Struct, kw_only=True):
    """One event on one channel.

    ``waits_for`` is null unless it is PENDING, and comes with GET of its event only. ``meaning`` and ``next_step`` put
    ``reason`` into words; ``detail`` is what was wrong with this very job when it was refused at routing.
    """

    id: str
    channel: str
    status: str
    reason: str | None
    meaning: str | None
    next_step: str | None
    detail: str | None
    created_at: str
    due_at: str | None
    expires_at: str
    finished_at: str | None
    attempts: list[AttemptOut]
    receipts: list[ReceiptOut] | UnsetType = UNSET
    waits_for: WaitingOut | UnsetType | None = UNSET


class EventOut(Struct):
    """An event as it is now, with all its jobs. ``recipient`` and ``payload`` come with GET only.

    ``reason``, ``meaning``, ``next_step`` and ``detail`` say why an event FAILED that could not be made into jobs.
    """

    id: str
    event_type: str
    idempotency_key: str
    ref: str | None
    status: str
    reason: str | None
    meaning: str | None
    next_step: str | None
    detail: str | None
    outcome: str
    received_at: str
    send_at: str | None
    expires_at: str
    routed_at: str | None
    file_version: int
    request_id: str
    jobs: list[JobOut]
    recipient: msgspec.Raw | UnsetType = UNSET
    payload: msgspec.Raw | UnsetType = UNSET


class EventsOut(Struct):
    """A page of events, the last received first; ``next_cursor`` is null on the last page. ``payload`` is left out."""

    data: list[EventOut]
    next_cursor: str | None


class ListedJobOut(JobOut, kw_only=True):
    """A job with what there is to know of its event."""

    event_id: str
    event_type: str | None
    ref: str | None
    recipient_id: str | None


class JobsOut(Struct):
    """A page of jobs; ``next_cursor`` is null on the last page."""

    data: list[ListedJobOut]
    next_cursor: str | None


class AcceptToSentOut(Struct):
    """How long it took from accepting an event (or from its ``send_at``) to SENT, to within 5 %, in milliseconds."""

    p50_ms: float
    p95_ms: float


class DeliveryOut(Struct):
    """What became of the jobs of one channel, and what it took.

    ``sent`` does without ``inbox_only``. A round is one claim of a job that ended in a report, ``attempts`` are calls
    of the provider (a push calls once for each target). ``retries`` are the rounds beyond the first of each job, and
    ``retry_rate`` is their share in all rounds. ``accept_to_sent`` is null while nothing was sent.
    """

    sent: int
    inbox_only: int
    failed: dict[str, int]
    skipped: dict[str, int]
    cancelled: int
    pending: int
    attempts: int
    rounds: int
    jobs_tried: int
    retries: int
    retry_rate: float
    accept_to_sent: AcceptToSentOut | None


class MetricsOut(Struct):
    """How many events and jobs there are, by status; every status there is stands there, if with 0.

    ``events_failed`` and the parts of ``delivery`` count by reason, and only what occurred.
    """

    events: dict[str, int]
    jobs: dict[str, dict[str, int]]
    events_failed: dict[str, int]
    delivery: dict[str, DeliveryOut]
