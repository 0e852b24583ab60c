"""Which channels an event goes out on, with which content, and why not on the others."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.channel import Channel
from shared.content import Content
from shared.ids import EventId
from shared.job import JobReason, JobStatus, Lane
from shared.recipient import Recipient
from shared.retry import Terms
from shared.tenant import ScopedTenant


@dataclass(frozen=True, slots=True)
class EventFacts:
    """What routing needs of one event. ``expires_at`` is the event's own, as ingest computed it."""

    event_id: EventId
    event_type: str
    recipient: Recipient
    payload: Mapping[str, Any]
    received_at: datetime
    expires_at: datetime
    send_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """A job to be made: what is to be sent, and on which terms."""

    channel: Channel
    recipient_id: str
    content: Content
    terms: Terms
    lane: Lane
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Refused:
    """A job that is over before it began; ``detail`` is for people."""

    channel: Channel
    recipient_id: str
    status: JobStatus
    reason: JobReason
    detail: str
    terms: Terms
    lane: Lane
    expires_at: datetime


def plan(tenant: ScopedTenant, event: EventFacts) -> list[Planned | Refused]:
    """One entry per channel of the event's type, in the order of ``EventType.channels``.

    Raises UnknownEventType when the tenant has no such type (any more).
    """
    raise NotImplementedError
