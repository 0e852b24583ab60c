"""Links as they leave the house: absolute, over https, or an address the tenant's own app opens."""

import re
from collections.abc import Collection

from shared.errors import RenderError

MAX_LINK_CHARACTERS = 2000

_HTTPS = re.compile(r"https://[A-Za-z0-9.-]+(:\d{1,5})?([/?#].*)?", re.IGNORECASE)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://)?[^\s]+")
_PRINTABLE = re.compile(r"[!-~\u00a1-\U0010ffff]+")
_DOTS = {".", ".."}


def absolute_link(url: str, website: str | None, name: str) -> str:
    """``url`` as an absolute https address; one that begins with ``/`` begins at ``website``.

    Raises RenderError, with ``name`` for the template, for anything else and for a path that climbs (``/../``).
    """
    url = _plain(url, name)
    if url.startswith("/") and not url.startswith(("//", "/\\")):
        if website is None:
            raise RenderError(f"{name} begins with / but the tenant has no website")
        url = website.rstrip("/") + url
    if not _HTTPS.fullmatch(url):
        raise RenderError(f"{name} must begin with https:// or /")
    if _climbs(url):
        raise RenderError(f"{name} has a path that climbs with . or ..")
    return url


def app_link(url: str, schemes: Collection[str], name: str) -> str:
    """``url`` when a phone may open it: one of the tenant's app schemes, or https; else RenderError."""
    url = _plain(url, name)
    scheme = _SCHEME.fullmatch(url)
    if scheme is None or scheme[1].lower() not in {*schemes, "https"}:
        allowed = ", ".join(f"{known}://" for known in [*schemes, "https"])
        raise RenderError(f"{name} must begin with one of {allowed}")
    if _climbs(url):
        raise RenderError(f"{name} has a path that climbs with . or ..")
    return url


def _plain(url: str, name: str) -> str:
    url = url.strip()
    if not url or len(url) > MAX_LINK_CHARACTERS or not _PRINTABLE.fullmatch(url):
        raise RenderError(f"{name} is empty, longer than {MAX_LINK_CHARACTERS} characters or has spaces in it")
    return url


def _climbs(url: str) -> bool:
    path = re.split(r"[?#]", url, maxsplit=1)[0]
    segments = re.split(r"[/\\]", path.split("://", 1)[-1])
    return any(re.sub("%2e", ".", segment, flags=re.IGNORECASE) in _DOTS for segment in segments)
