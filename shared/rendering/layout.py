"""What is put around the content of a mail: Waybill's own layout (plain, responsive) or one of the tenant's."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from importlib.resources import files
from typing import Any

from babel import Locale

from shared.content import UNSUBSCRIBE_PLACE, Link
from shared.rendering.bounds import Budget, Voice
from shared.rendering.formats import find_locale
from shared.rendering.kinds import Escaped, Kind
from shared.rendering.liquid import render
from shared.rendering.variables import TEXT, object_schema, own_schemas
from shared.rendering.words import open_word

_LAYOUT = (files("shared.rendering") / "layout.html").read_text("utf-8")
_ENGLISH = Locale("en")


@dataclass(frozen=True, slots=True)
class Frame:
    """What the layout puts around ``content``, which is HTML already; everything else is text."""

    locale: str
    subject: str
    content: str
    sender_name: str
    title: str | None = None
    preheader: str | None = None
    link: Link | None = None
    website: str | None = None


def lay_out(frame: Frame, template: str | None = None, around: Mapping[str, object] | None = None) -> str:
    """The whole HTML document of a mail, in ``template`` or, where that is None, in Waybill's own layout.

    ``around`` is what it can speak of beside the frame. Raises RenderError.
    """
    locale = find_locale(frame.locale) or _ENGLISH
    link = frame.link
    variables = {
        **(around or {}),
        "locale": frame.locale,
        "direction": locale.text_direction,
        "subject": frame.subject,
        "title": frame.title,
        "preheader": frame.preheader,
        "content": Escaped(frame.content),
        "sender_name": frame.sender_name,
        "website": frame.website,
        "host": None if frame.website is None else frame.website.removeprefix("https://").rstrip("/"),
        "unsubscribe": Escaped(UNSUBSCRIBE_PLACE),
        "button": None if link is None else {"url": link.url, "label": link.label or open_word(frame.locale)},
    }
    given = {name: value for name, value in variables.items() if value is not None}
    return render(template or _LAYOUT, Kind.HTML, "layout", given, Voice(locale, UTC), Budget())


def layout_schema() -> dict[str, Any]:
    """The JSON Schema of what a layout can speak of, for the check of a tenant's own."""
    always = ("locale", "direction", "subject", "content", "sender_name", "unsubscribe")
    texts = dict.fromkeys((*always, "title", "preheader", "website", "host"), TEXT)
    own = own_schemas()
    button = object_schema({"url": TEXT, "label": TEXT}, required=["url", "label"])
    return object_schema({**texts, "button": button, **own}, required=[*always, *own])
