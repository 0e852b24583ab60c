"""A mail that came in, as the tree of its parts, whatever its bytes: bounded in size, depth and count, never raising.

Written by hand, since the standard library's parser goes one level of the stack deeper with every nested part, and
reads what is broken in ways that hide it.
"""

import binascii
import codecs
import re
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import decode_header
from quopri import decodestring

MOST_BYTES = 2 << 20
"""Of a mail, the beginning: what tells of a bounce stands before the copy of what bounced."""
MOST_DEPTH = 10
MOST_PARTS = 100
MOST_HEADERS = 500
LONGEST_HEADER = 20_000
LONGEST_BODY = 200_000
"""Of one part's text, as far as anybody reads it."""
_HEADER = re.compile(rb"([!-9;-~]+)[ \t]*:(.*)", re.DOTALL)
_BOUNDARY = re.compile(rb"^--(\S[^\n]{0,200}?)[ \t]*\nContent-", re.MULTILINE | re.IGNORECASE)
"""What must be one, where the header names another."""
_PARAMETER = re.compile(r""";\s*([\w*-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))""")
_HIDDEN = re.compile(r"<(?:style|script|head)\b.*?</(?:style|script|head)>", re.IGNORECASE | re.DOTALL)
_HIDDEN_ENDS = re.compile(r"</(?:style|script|head)>", re.IGNORECASE)
_TAG = re.compile(r"<br\s{0,300}/?>|</(?:p|div|tr|li|h\d)>|<[^>]{0,300}>", re.IGNORECASE)
_MESSAGES = (
    *("message/rfc822", "text/rfc822-headers", "message/rfc822-headers"),
    *("message/global", "message/global-headers"),
)
"""Parts that hold a message, or its headers (RFC 3462, 6533 and what is also sent)."""
_NOT_FOR_TEXT = ("unicode", "idna", "punycode", "undefined", "raw", "utf-7", "utf7")


@dataclass(frozen=True, slots=True)
class Part:
    """One part: its headers in their order, names in lower case, and what is under them.

    ``kind`` is its type, say ``text/plain``. A message inside a message is a child of its part.
    """

    headers: tuple[tuple[str, str], ...]
    kind: str
    body: bytes
    children: tuple["Part", ...]

    def header(self, name: str) -> str:
        """The first header ``name``, encoded words read; '' when there is none."""
        return next((value for known, value in self.headers if known == name), "")

    def walk(self) -> Iterator["Part"]:
        """The part itself and all parts under it, in their order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def own_parts(self) -> Iterator["Part"]:
        """The part itself and those under it that are not inside of another message."""
        yield self
        for child in self.children:
            if not self.kind.startswith("message/"):
                yield from child.own_parts()

    def text(self) -> str:
        """The body as people read it; of HTML only the words."""
        encoding = self.header("content-transfer-encoding").strip().lower()
        body = _decoded(self.body[:LONGEST_BODY], encoding)
        text = _decode(body, _parameters(self.header("content-type")).get("charset", ""))
        return _words_of_html(text) if self.kind == "text/html" else text


def read_mail(raw: bytes) -> Part:
    """The mail in ``raw``, with LF or CRLF or both, with or without the line that an mbox begins it with."""
    text = raw[:MOST_BYTES].replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\0", b"")
    return _Reader().read(_from_its_headers(text), 0, "text/plain")


class _Reader:
    """Reads one mail; counts its parts."""

    def __init__(self) -> None:
        self._count = 0

    def read(self, text: bytes, depth: int, default: str) -> Part:
        self._count += 1
        headers, body = _split(text)
        content_type = next((value for name, value in headers if name == "content-type"), "")
        kind = content_type.partition(";")[0].strip().lower() or default
        children: tuple[Part, ...] = ()
        if depth < MOST_DEPTH and self._count < MOST_PARTS:
            children = self._children(kind, content_type, headers, body, depth)
        return Part(headers, kind, body, children)

    def _children(
        self, kind: str, content_type: str, headers: tuple[tuple[str, str], ...], body: bytes, depth: int
    ) -> tuple[Part, ...]:
        if kind.startswith("multipart/"):
            boundary = _parameters(content_type).get("boundary", "").encode("utf-8", "replace")
            if not boundary or b"--" + boundary not in body:
                boundary = found[1] if (found := _BOUNDARY.search(body)) else b""
            default = "message/rfc822" if kind == "multipart/digest" else "text/plain"
            pieces = _pieces(body, boundary) if boundary else []
            return tuple(self.read(piece, depth + 1, default) for piece in pieces if self._count < MOST_PARTS)
        if kind in _MESSAGES:
            encoding = next((value for name, value in headers if name == "content-transfer-encoding"), "")
            inside = _decoded(body, encoding.strip().lower()).replace(b"\r\n", b"\n")
            return (self.read(_from_its_headers(inside), depth + 1, "text/plain"),)
        return ()


def _from_its_headers(text: bytes) -> bytes:
    """A message without what may stand before its headers: blank lines, and the line that an mbox begins it with."""
    text = text.lstrip(b"\n")
    return text.partition(b"\n")[2].lstrip(b"\n") if text.startswith((b"From ", b">From ")) else text


def _split(text: bytes) -> tuple[tuple[tuple[str, str], ...], bytes]:
    """The headers and the body of ``text``; where something that is no header stands among them, the body begins."""
    headers: list[tuple[bytes, bytes]] = []
    at = 0
    while at < len(text) and len(headers) < MOST_HEADERS:
        end = text.find(b"\n", at)
        line = text[at:] if end < 0 else text[at:end]
        if not line.strip():
            at += len(line) + 1
            break
        if line[:1] in b" \t" and headers:
            name, value = headers[-1]
            if len(value) < LONGEST_HEADER:
                headers[-1] = name, value + b" " + line.strip()[:LONGEST_HEADER]
        elif found := _HEADER.match(line):
            headers.append((found[1], found[2].strip()[:LONGEST_HEADER]))
        else:
            break
        at += len(line) + 1
    return tuple((name.decode("ascii").lower(), _words(value)) for name, value in headers), text[at:]


def _pieces(body: bytes, boundary: bytes) -> list[bytes]:
    """What stands between the boundaries; the last piece ends with the text where the closing one is missing."""
    marker = b"--" + boundary
    pieces: list[bytes] = []
    start: int | None = None
    at = 0
    while len(pieces) <= MOST_PARTS and (at := body.find(marker, at)) >= 0:
        # What stands inside of a line is passed by before anything is copied: a line may be as long as the mail.
        if at == 0 or body[at - 1 : at] == b"\n":
            end = body.find(b"\n", at)
            line = (body[at:] if end < 0 else body[at:end]).rstrip()
            if line in (marker, marker + b"--"):
                if start is not None:
                    pieces.append(body[start : max(at - 1, start)])
                start = None if line != marker or end < 0 else end + 1
        at += len(marker)
    if start is not None:
        pieces.append(body[start:])
    return pieces


def _parameters(content_type: str) -> dict[str, str]:
    return {
        name.lower().rstrip("*"): (quoted or bare).strip() for name, quoted, bare in _PARAMETER.findall(content_type)
    }


def _decoded(body: bytes, encoding: str) -> bytes:
    if encoding == "quoted-printable":
        return decodestring(body)
    if encoding == "base64":
        try:
            return b64decode(re.sub(rb"[^A-Za-z0-9+/]", b"", body) + b"==")
        except (binascii.Error, ValueError):
            return body
    return body


def _decode(text: bytes, charset: str) -> str:
    """``text`` in ``charset``; what is no text in it is read as UTF-8, or else as Latin-1."""
    for name in (charset.strip("'\" ").lower() or "utf-8", "utf-8"):
        if name.startswith(_NOT_FOR_TEXT):
            continue
        try:
            codecs.lookup(name)
            return text.decode(name)
        except (LookupError, ValueError):
            continue
    return text.decode("latin-1")


def _words(value: bytes) -> str:
    text = _decode(value, "utf-8")
    if "=?" not in text:
        return text
    try:
        pieces = decode_header(text)
    except (ValueError, HeaderParseError, LookupError):
        return text
    return "".join(piece if isinstance(piece, str) else _decode(piece, charset or "") for piece, charset in pieces)


def _words_of_html(text: str) -> str:
    # Only up to where the last hidden part ends: behind that, each beginning would search the rest for an end.
    ends = max((found.end() for found in _HIDDEN_ENDS.finditer(text)), default=0)
    return _TAG.sub(_blank, _HIDDEN.sub(" ", text[:ends]) + text[ends:])


def _blank(tag: re.Match[str]) -> str:
    return "\n" if tag[0][:2].lower() in ("<b", "</") else " "
