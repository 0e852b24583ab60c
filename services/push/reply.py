"""One answer over HTTP, and what any push service's answer may say of itself."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

LONGEST_WAIT_SECONDS = 10**7
_SECONDS = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)s", re.ASCII)


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer; the names in ``headers`` are in lower case, ``body`` may be cut off."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def fields(self) -> dict[str, Any]:
        """The JSON object in the body; a list of them counts as its first; empty where there is none."""
        try:
            value = msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
        if isinstance(value, list) and value:
            value = value[0]
        return value if isinstance(value, dict) else {}

    @property
    def text(self) -> str:
        """The body as text, whatever is in it."""
        return self.body.decode("utf-8", "replace").strip()

    @property
    def is_page(self) -> bool:
        """Whether it is a page for people: a proxy's, a front end's, a captive portal's."""
        return self.body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<"

    @property
    def retry_after(self) -> timedelta | None:
        """What the header says, in seconds or as an HTTP date; None where there is neither."""
        text = self.headers.get("retry-after", "").strip()
        if text.isascii() and text.isdigit():
            return timedelta(seconds=min(int(text[:12]), LONGEST_WAIT_SECONDS))
        try:
            return max(parsedate_to_datetime(text) - datetime.now(UTC), timedelta())
        except (ValueError, TypeError):
            return None


def seconds_of(text: str) -> timedelta | None:
    """The duration that ``text`` gives as seconds with an s, as Google writes them (3.5s); None: it gives none."""
    found = _SECONDS.fullmatch(text)
    return None if found is None else timedelta(seconds=min(float(found[1]), LONGEST_WAIT_SECONDS))


def text_of(value: object) -> str:
    """``value`` if it is text, else ''."""
    return value if isinstance(value, str) else ""
