"""Which channels an event goes out on, with which content, and why not on the others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.channel import Channel
from shared.content import Content
from shared.errors import RenderError, UnknownEventType
from shared.ids import EventId
from shared.job import REASONS, JobReason, JobStatus, Lane
from shared.recipient import Recipient
from shared.rendering.entry import write_entry
from shared.rendering.mail import write_mail
from shared.rendering.notification import write_notification
from shared.rendering.writer import Writer
from shared.retry import Terms
from shared.tenant import ChannelTerms, EmailRule, EventType, InappRule, PushRule, ScopedTenant, Tenant


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


@dataclass(frozen=True, slots=True)
class Wishes:
    """What keeps one event from its recipient: channels that they switched off, and a suppressed mail address."""

    unwanted: frozenset[Channel] = frozenset()
    suppressed: bool = False


NOTHING_AGAINST = Wishes()


def plan(tenant: ScopedTenant, event: EventFacts, wishes: Wishes = NOTHING_AGAINST) -> list[Planned | Refused]:
    """One entry per channel of the event's type, in the order of ``EventType.channels``.

    A template that fails refuses its own channel and no other. Raises UnknownEventType when the tenant has no
    such type (any more).
    """
    event_type = tenant.tenant.event_types.get(event.event_type)
    if event_type is None:
        raise UnknownEventType(f"tenant {tenant.tenant.key} has no event type {event.event_type}")
    entries: list[Planned | Refused] = []
    if event_type.inapp is not None:
        entries.append(_plan_inapp(tenant.tenant, event_type, event_type.inapp, event, wishes))
    if event_type.email is not None:
        entries.append(_plan_email(tenant.tenant, event_type, event_type.email, event, wishes))
    if event_type.push is not None:
        entries.append(_plan_push(tenant.tenant, event_type, event_type.push, event, wishes))
    return entries


def _plan_inapp(
    tenant: Tenant, event_type: EventType, rule: InappRule, event: EventFacts, wishes: Wishes
) -> Planned | Refused:
    bare = _Bare(Channel.INAPP, event_type, rule.how, event)
    if Channel.INAPP in wishes.unwanted:
        return bare.unwanted()
    return bare.rendered(lambda: write_entry(rule, _writer(tenant, event)))


def _plan_email(
    tenant: Tenant, event_type: EventType, rule: EmailRule, event: EventFacts, wishes: Wishes
) -> Planned | Refused:
    bare = _Bare(Channel.EMAIL, event_type, rule.how, event)
    if Channel.EMAIL in wishes.unwanted:
        return bare.unwanted()
    address = event.recipient.email
    if not address:
        return bare.refused(JobReason.NO_ADDRESS, "the event gave no email address for its recipient")
    if wishes.suppressed:
        return bare.refused(JobReason.SUPPRESSED, "the address is on the suppression list")
    return bare.rendered(lambda: write_mail(event_type, rule, _writer(tenant, event), address))


def _plan_push(
    tenant: Tenant, event_type: EventType, rule: PushRule, event: EventFacts, wishes: Wishes
) -> Planned | Refused:
    # Never skipped for want of targets: they are read when it is sent, and may be registered until then.
    bare = _Bare(Channel.PUSH, event_type, rule.how, event)
    if Channel.PUSH in wishes.unwanted:
        return bare.unwanted()
    return bare.rendered(lambda: write_notification(rule, _writer(tenant, event)))


def _writer(tenant: Tenant, event: EventFacts) -> Writer:
    return Writer(tenant, event.event_id, event.recipient, event.payload)


@dataclass(frozen=True, slots=True)
class _Bare:
    """What a job is before anybody has written its content."""

    channel: Channel
    event_type: EventType
    how: ChannelTerms
    event: EventFacts

    def rendered(self, write: Callable[[], Content]) -> Planned | Refused:
        try:
            content = write()
        except RenderError as exc:
            return self.refused(JobReason.TEMPLATE_ERROR, str(exc))
        return Planned(
            channel=self.channel,
            recipient_id=self.event.recipient.id,
            content=content,
            terms=self.how.terms,
            lane=self.how.lane,
            expires_at=self._expires_at(),
        )

    def unwanted(self) -> Refused:
        return self.refused(
            JobReason.PREFERENCE, f"the recipient switched {self.event_type.category} off on {self.channel}"
        )

    def refused(self, reason: JobReason, detail: str) -> Refused:
        return Refused(
            channel=self.channel,
            recipient_id=self.event.recipient.id,
            status=REASONS[reason].status,
            reason=reason,
            detail=detail,
            terms=self.how.terms,
            lane=self.how.lane,
            expires_at=self._expires_at(),
        )

    def _expires_at(self) -> datetime:
        # The event's own expiry stands, whoever set it; a channel can only be more impatient than its type.
        if self.how.expires_after >= self.event_type.expires_after:
            return self.event.expires_at
        begins_at = max(self.event.send_at or self.event.received_at, self.event.received_at)
        return min(self.event.expires_at, begins_at + self.how.expires_after)
