"""Rendered content: what a channel is to send, one type per channel, stored with the job."""

from dataclasses import dataclass, field


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


Content = InappContent | EmailContent
