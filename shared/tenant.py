"""A tenant as its file describes it, compiled: every default resolved, every template as source text.

The store keeps it as JSON. An older row decodes after a change here as long as new fields have defaults
and no field is renamed.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal

from shared.channel import Channel
from shared.content import AndroidStyle, AppleStyle, Urgency, WebStyle
from shared.ids import ScopeId, TenantId
from shared.job import Lane
from shared.recipient import Recipient
from shared.retry import Terms

Texts = dict[str, str]
"""One text in every locale of the tenant: locale name to Liquid source."""

DEFAULT_EXPIRES_AFTER = timedelta(hours=24)


class Mode(StrEnum):
    """Which half of a tenant a scope is; the word stored in ``scopes.mode``."""

    LIVE = "live"
    """Reaches people."""
    TEST = "test"
    """Runs the whole pipeline without reaching anybody."""


@dataclass(frozen=True, slots=True)
class LinkTemplate:
    """Where a message leads. ``url`` begins with ``/`` (then the website is put before it) or ``https://``."""

    url: Texts
    label: Texts | None = None
    app: Texts | None = None


@dataclass(frozen=True, slots=True)
class ChannelTerms:
    """How a channel's jobs are treated, after defaults, event type and channel had their say."""

    terms: Terms
    lane: Lane = Lane.TRANSACTIONAL
    expires_after: timedelta = DEFAULT_EXPIRES_AFTER


@dataclass(frozen=True, slots=True)
class InappRule:
    """What the inbox entry of an event type says."""

    how: ChannelTerms
    title: Texts
    body: Texts
    link: LinkTemplate | None = None
    icon: str | None = None
    data: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EmailRule:
    """What the mail of an event type says.

    The content is ``markdown``, or ``html`` with ``text``, or ``text`` alone; ``text`` beside ``markdown``
    replaces the plain text made from it. ``title`` is the heading in the layout. ``reply_to`` is one template for
    all locales; what it comes to must be an address.
    """

    how: ChannelTerms
    subject: Texts
    title: Texts | None = None
    preheader: Texts | None = None
    markdown: Texts | None = None
    html: Texts | None = None
    text: Texts | None = None
    link: LinkTemplate | None = None
    reply_to: str | None = None


@dataclass(frozen=True, slots=True)
class PushRule:
    """What the notification of an event type says. ``data`` and ``collapse`` are the same in every locale.

    ``web.icon`` begins with ``/`` (then the website is put before it) or ``https://``; the rest is as in PushContent.
    """

    how: ChannelTerms
    title: Texts
    body: Texts
    link: LinkTemplate | None = None
    data: dict[str, str] = field(default_factory=dict)
    badge: Literal["unread"] | None = None
    urgency: Urgency | None = None
    ttl: timedelta | None = None
    collapse: str | None = None
    android: AndroidStyle = field(default_factory=AndroidStyle)
    apple: AppleStyle = field(default_factory=AppleStyle)
    web: WebStyle = field(default_factory=WebStyle)


@dataclass(frozen=True, slots=True)
class EventType:
    """One kind of event: the payload it takes and what is said on which channel.

    ``to`` is whom its events go to, whoever posts them; None: each event names its recipient.
    """

    id: str
    title: str
    payload_schema: dict[str, Any]
    example: dict[str, Any]
    lane: Lane = Lane.TRANSACTIONAL
    expires_after: timedelta = DEFAULT_EXPIRES_AFTER
    category: str | None = None
    to: Recipient | None = None
    inapp: InappRule | None = None
    email: EmailRule | None = None
    push: PushRule | None = None

    def channels(self) -> tuple[Channel, ...]:
        """The channels this type goes out on, in the order their jobs are made."""
        rules = ((Channel.INAPP, self.inapp), (Channel.EMAIL, self.email), (Channel.PUSH, self.push))
        return tuple(channel for channel, rule in rules if rule is not None)


@dataclass(frozen=True, slots=True)
class Category:
    """What a person can switch off as one; ``critical`` ones nobody can."""

    title: Texts
    critical: bool = False
    default_channels: tuple[Channel, ...] | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """Where `apply` finds a credential: an environment variable or a file. The credential itself is never here."""

    env: str | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True)
class OwnRelay:
    """A mail relay of the tenant's own, by reference to its URL."""

    url: Reference


@dataclass(frozen=True, slots=True)
class EmailSender:
    """Who a tenant's mail is from. ``relay`` None: it goes out through the platform's.

    ``per_second``: how many mails a second one process hands over at most; None: as many as it can.
    """

    address: str
    name: str | None = None
    reply_to: str | None = None
    relay: OwnRelay | None = None
    per_second: float | None = None


@dataclass(frozen=True, slots=True)
class FcmProject:
    """The Firebase project a tenant's pushes go out through, by reference to its service account."""

    service_account: Reference


@dataclass(frozen=True, slots=True)
class WebPush:
    """How browsers are reached: ``contact`` (mailto: or https:) is whom push services may write to.

    ``vapid_key`` None: the key pair is the one that ``waybill sender vapid`` made.
    """

    contact: str
    vapid_key: Reference | None = None


@dataclass(frozen=True, slots=True)
class PushSender:
    """How a tenant's pushes go out."""

    fcm: FcmProject | None = None
    webpush: WebPush | None = None


@dataclass(frozen=True, slots=True)
class Senders:
    """Who a tenant's messages are from, per channel."""

    email: EmailSender | None = None
    push: PushSender | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """How long finished events, and their content and attempts, are kept; None is the installation's own."""

    events: timedelta | None = None
    content: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant: everything its file says. ``locales`` is never empty; its first is the default.

    ``email_layout`` is the template put around the content of every mail; None: Waybill's own.
    """

    key: str
    name: str
    locales: tuple[str, ...]
    timezone: str = "UTC"
    website: str | None = None
    app_link_schemes: tuple[str, ...] = ()
    retention: Retention = Retention()
    senders: Senders = Senders()
    email_layout: str | None = None
    categories: dict[str, Category] = field(default_factory=dict)
    event_types: dict[str, EventType] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScopedTenant:
    """One half of a tenant with the file version that applies now."""

    scope_id: ScopeId
    tenant_id: TenantId
    mode: Mode
    file_version: int
    tenant: Tenant
