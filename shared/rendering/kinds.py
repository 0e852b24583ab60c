"""What a template's output is read as, and how values are escaped for it."""

import html
import json
import re
from collections.abc import Callable
from enum import StrEnum
from urllib.parse import quote

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_SPACES = re.compile(r"[ \t\f\v]+")
_LINES = re.compile(r"\s*[\r\n\u2028\u2029]\s*")

BREAK = "\ufdd0"
"""A line end inside a value in Markdown: a character that Unicode keeps for programs. The real one would end what the
value stands in, a heading or a row of a table."""

# Everything an URL may be made of; what is not in it (spaces, quotes, angle brackets) is percent-encoded.
_URL_CHARACTERS = ":/?#[]@!$&'()*+,;=%-._~"


class Kind(StrEnum):
    """What a template's output is read as; only values are escaped, the author's own words never."""

    TEXT = "text"
    """Plain text: subjects, titles, inbox bodies, push, plain mail. Nothing is escaped."""
    HTML = "html"
    """HTML, in elements and in quoted attributes."""
    MARKDOWN = "markdown"
    """Markdown: a value is text, never markup, and never begins a block."""
    URL = "url"
    """A URL: a value is one part of it. A template that begins with a value takes it as a whole URL."""
    JSON = "json"
    """The inside of a JSON string."""


class Escaped(str):
    """Output of a template that is escaped already: a ``capture``, or content put into a layout."""

    __slots__ = ()


def escape_markdown(value: str) -> str:
    """``value`` as Markdown that shows exactly it: every punctuation mark escaped, a BREAK between its lines."""
    lines = _LINES.split(value.replace(BREAK, ""))
    return BREAK.join(_PUNCTUATION.sub(r"\\\1", _SPACES.sub(" ", line)) for line in lines)


def unescape_code(content: str) -> str:
    """``content`` of a Markdown code span or block without the escapes: in code a backslash is a character."""
    return _ESCAPED.sub(r"\1", content).replace(BREAK, "\n")


def escape_url_part(value: str) -> str:
    """``value`` as one segment or parameter of a URL."""
    return quote(value, safe="")


def escape_whole_url(value: str) -> str:
    """``value``, a whole URL, without the characters no URL may contain."""
    return quote(value, safe=_URL_CHARACTERS)


def escape_json(value: str) -> str:
    """``value`` as the inside of a JSON string, safe in a ``<script>`` as well."""
    return json.dumps(value)[1:-1].replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _as_is(value: str) -> str:
    return value


ESCAPES: dict[Kind, Callable[[str], str]] = {
    Kind.TEXT: _as_is,
    Kind.HTML: html.escape,
    Kind.MARKDOWN: escape_markdown,
    Kind.URL: escape_url_part,
    Kind.JSON: escape_json,
}
