"""One channel's texts, written for one recipient: the locale chosen once, the budget shared."""

from collections.abc import Mapping
from datetime import tzinfo
from typing import Any

from shared.content import Link
from shared.errors import RenderError
from shared.ids import EventId
from shared.recipient import Recipient
from shared.rendering.bounds import Budget, Voice
from shared.rendering.formats import find_locale, find_zone
from shared.rendering.kinds import Kind
from shared.rendering.links import absolute_link, app_link
from shared.rendering.liquid import render
from shared.rendering.locales import choose_locale
from shared.rendering.variables import variables_of
from shared.tenant import LinkTemplate, Tenant, Texts


class Writer:
    """Writes the texts of one channel. ``locale`` is the tenant's locale the recipient gets.

    Raises RenderError for a time zone nobody knows: ingest should never have let it in.
    """

    def __init__(self, tenant: Tenant, event_id: EventId, recipient: Recipient, payload: Mapping[str, Any]) -> None:
        self.tenant = tenant
        self.recipient = recipient
        self.locale = choose_locale(recipient.locale, tenant.locales)
        self._zone = _zone(recipient.timezone or tenant.timezone)
        self._variables = variables_of(tenant, event_id, recipient, self.locale, payload)
        self._budget = Budget()

    @property
    def around(self) -> dict[str, object]:
        """What templates can speak of beside the payload."""
        return {name: value for name, value in self._variables.items() if name != "payload"}

    def write(self, texts: Texts, kind: Kind, name: str) -> str:
        """The text in the recipient's locale; ``name`` is what errors call it. Raises RenderError."""
        # A type kept from an older file may lack a locale that was added since.
        variant = choose_locale(self.locale, list(texts))
        locale = find_locale(variant)
        if locale is None:
            raise RenderError(f"{name} is written for {variant}, a locale nobody knows")
        voice = Voice(locale, self._zone)
        return render(texts[variant], kind, f"{name}.{variant}", self._variables, voice, self._budget)

    def line(self, texts: Texts, name: str) -> str:
        """The text on one line: a title or a subject, where a line break has no place."""
        return " ".join(self.write(texts, Kind.TEXT, name).split())

    def one(self, source: str, name: str) -> str:
        """The text of a template that is the same in every locale. Raises RenderError."""
        return self.write({self.locale: source}, Kind.TEXT, name)

    def link(self, link: LinkTemplate | None) -> Link | None:
        """The link, absolute and checked; None stays None."""
        if link is None:
            return None
        url = absolute_link(self.write(link.url, Kind.URL, "link.url"), self.tenant.website, "link.url")
        label = None if link.label is None else self.line(link.label, "link.label")
        app = None
        if link.app is not None:
            written = self.write(link.app, Kind.URL, "link.app")
            app = app_link(written, self.tenant.app_link_schemes, "link.app")
        return Link(url, label or None, app)


def _zone(name: str) -> tzinfo:
    zone = find_zone(name)
    if zone is None:
        raise RenderError("the time zone is one nobody knows")
    return zone
