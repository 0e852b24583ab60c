"""Header lines of a mail: one line of text in, ASCII out, folded, and never a second header.

Written by hand, since the standard library's newer header classes lose blanks between encoded words (Python
before 3.12.4) and are by far the most expensive part of making a mail.
"""

import re
from base64 import b64encode

LINE_LIMIT = 76
LONGEST_LINK = 970
"""A line has 998 characters at most (RFC 5322), and a link cannot be folded."""
LONGEST_WORD = 64
"""What still fits behind the name of any header that we write."""
# 39 bytes make 52 characters of base64, with "=?utf-8?b?" and "?=" 64.
WORD_BYTES = 39
# Everything that any reader of a header might take for the end of a line, what cannot be printed, and what turns the
# direction of all that follows: a name could make an address read otherwise.
_NOT_TEXT = re.compile("[\x00-\x20\x7f-\xa0\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]+")
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_LINK = re.compile(r"[!-;=?-~]+")
_ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~ -]+")


def one_line(text: str) -> str:
    """``text`` with every run of blanks, line ends and control characters made one space."""
    return _NOT_TEXT.sub(" ", text).strip(" ")


def text_header(name: str, text: str) -> str:
    """A header line, CRLF included, whose value is ``text`` as people read it."""
    value = one_line(text)
    return _fold(name, _words(value) if _is_plain(value) else _encoded_words(value))


def mailbox_header(name: str, display_name: str | None, address: str) -> str:
    """A header line, CRLF included, with one mailbox; ``address`` has been checked before."""
    shown = one_line(display_name or "")
    if not shown:
        return _fold(name, [address])
    quoted = shown.replace("\\", "\\\\").replace('"', '\\"')
    if _ATOMS.fullmatch(shown) and _is_plain(shown):
        words = _words(shown)
    elif _is_plain(shown) and len(quoted) <= LONGEST_WORD - 2:
        words = [f'"{quoted}"']
    else:
        words = _encoded_words(shown)
    return _fold(name, [*words, f"<{address}>"])


def unsubscribe_headers(link: str | None) -> str:
    """The two header lines of a one-click link (RFC 8058); '' without one, or where no header line can hold it."""
    if link is None or _LINK.fullmatch(link) is None or len(link) > LONGEST_LINK:
        return ""
    return f"List-Unsubscribe: <{link}>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"


def _is_plain(text: str) -> bool:
    """Whether it can stand as it is: ASCII, nothing that looks like an encoded word, no word too long to fold."""
    return (
        _PRINTABLE.fullmatch(text) is not None
        and "=?" not in text
        and all(len(word) <= LONGEST_WORD for word in text.split(" "))
    )


def _words(text: str) -> list[str]:
    return text.split(" ")


def _encoded_words(text: str) -> list[str]:
    """``text`` as encoded words; a reader drops the blanks between them, so its own are inside."""
    return [f"=?utf-8?b?{b64encode(chunk).decode()}?=" for chunk in _chunks(text)]


def _chunks(text: str) -> list[bytes]:
    chunks = [bytearray()]
    for character in text:
        encoded = character.encode()
        if len(chunks[-1]) + len(encoded) > WORD_BYTES:
            chunks.append(bytearray())
        chunks[-1] += encoded
    return [bytes(chunk) for chunk in chunks]


def _fold(name: str, words: list[str]) -> str:
    lines = [f"{name}:"]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > LINE_LIMIT and lines[-1] != f"{name}:":
            lines.append("")
        lines[-1] += f" {word}"
    return "\r\n".join(lines) + "\r\n"
