"""Rendered content: what a channel is to send, one type per channel, stored with the job."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal


@dataclass(frozen=True, slots=True)
class Link:
    """Where a message leads: an absolute https URL, its label, and optionally what the phone app opens."""

    url: str
    label: str | None = None
    app: str | None = None


@dataclass(frozen=True, slots=True)
class InappContent:
    """One inbox entry in the locale it was rendered for; ``data`` is for the product's own front end."""

    title: str
    body: str
    locale: str
    link: Link | None = None
    icon: str | None = None
    data: dict[str, str] = field(default_factory=dict)


UNSUBSCRIBE_PLACE = "<!--waybill:unsubscribe-->"
"""Where in a mail's HTML its unsubscribe link goes: it is made at the attempt, if the mail has one at all."""


@dataclass(frozen=True, slots=True)
class EmailContent:
    """One mail to one address. The sender is not here: it is resolved anew at every attempt.

    ``category`` is the category's id, ``critical`` whether it can be switched off.
    """

    to_address: str
    subject: str
    text: str
    html: str
    locale: str
    to_name: str | None = None
    reply_to: str | None = None
    category: str | None = None
    critical: bool = False


Urgency = Literal["very-low", "low", "normal", "high"]
"""How much a push may disturb; the words of RFC 8030."""


@dataclass(frozen=True, slots=True)
class AndroidStyle:
    """What only Android shows: the app's notification channel and the name of one of its icons."""

    channel_id: str | None = None
    icon: str | None = None


@dataclass(frozen=True, slots=True)
class AppleStyle:
    """What only Apple's devices play or show: a sound of the app, and the thread notifications are grouped by."""

    sound: str | None = None
    thread_id: str | None = None


@dataclass(frozen=True, slots=True)
class WebStyle:
    """What only browsers show: the absolute URL of an icon."""

    icon: str | None = None


@dataclass(frozen=True, slots=True)
class PushContent:
    """One notification for a recipient's phones and browsers.

    ``badge`` ``unread`` puts the inbox's count of unread entries on the app's icon. ``ttl`` is how long the
    push service keeps it for a phone that is off; ``collapse`` names what a later message replaces there.
    """

    title: str
    body: str
    locale: str
    link: Link | None = None
    data: dict[str, str] = field(default_factory=dict)
    badge: Literal["unread"] | None = None
    urgency: Urgency | None = None
    ttl: timedelta | None = None
    collapse: str | None = None
    android: AndroidStyle = AndroidStyle()
    apple: AppleStyle = AppleStyle()
    web: WebStyle = WebStyle()


Content = InappContent | EmailContent | PushContent
