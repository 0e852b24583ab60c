"""The bytes of a mail, whatever was written into it: no server, reader or attacker can make more of them."""

from dataclasses import replace
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.utils import parseaddr
from uuid import UUID

import pytest

from services.email.addresses import BadAddress
from services.email.headers import one_line
from services.email.message import build_message
from shared.content import EmailContent
from shared.tenant import EmailSender

STABLE_ID = UUID("0193a1b2c3d4700080000000000000f2")
BOUNDARY = "--=_0193a1b2c3d4700080000000000000f2"
NOW = datetime(2026, 12, 1, 14, 0, tzinfo=UTC)
SENDER = EmailSender("hello@campus.example", "CampusCritique")
CONTENT = EmailContent("bob@inbox.example", "Hello", "Text\n", "<p>Text</p>\n", "de-AT", to_name="Bob")
KEYS = [
    *("From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Language", "MIME-Version"),
    "Content-Type",
]
PLACES = ("subject", "to_name", "sender_name", "text", "html")
NASTY = {
    "empty": "",
    "blanks": " \t  ",
    "line ends": "x\r\nBcc: eve@evil.example\r\n\r\n<script>",
    "bare line ends": "x\nBcc: eve@evil.example\rCc: eve@evil.example",
    "line ends of Unicode": "a\u2028b\u2029c\x0bd\x0ce\x1cf\x1eg\x85h",
    "end of the mail": "x\r\n.\r\nMAIL FROM:<eve@evil.example>",
    "bare end of the mail": "x\n.\nMAIL FROM:<eve@evil.example>\r.\r",
    "dots": "..\r\n.\r\n...",
    "end of the parts": f"x\r\n{BOUNDARY}--\r\n{BOUNDARY}\r\nContent-Type: text/html\r\n\r\n<b>",
    "mailbox lines": "From eve\nFrom bob\n>From ann",
    "a long word": "x" * 5_000,
    "a long word beyond ASCII": "ä" * 3_000,
    "long lines": "word " * 2_000,
    "families": "👩‍👩‍👧‍👦" * 300,
    "combining marks": "é" * 500,
    "an encoded word": "=?utf-8?q?x=0D=0ABcc:_eve=40evil.example?=",
    "half an encoded word": "=?utf-8?b?" * 100,
    "quotes": '"' * 70,
    "backslashes": "\\" * 75,
    "an address": '"Eve" <eve@evil.example>, ',
    "a group": "friends: eve@evil.example;",
    "comments": "(" * 60 + "eve",
    "zero bytes": "a\x00b\x00",
    "a terminal": "\x1b[31mred\x1b[0m\x07\x7f",
    "half a character": "a\ud800b",
    "the other direction": "\u202egro.elpmaxe@bob\u202c \u2066x",
    "a mark of byte order": "\ufeffx",
    "a page of Japanese": "日本語 " * 500,
    "markup": "<a href='javascript:x'>&amp;</a><!--",
    "percents": "%s %0d%0a %n {0} {{ x }}",
}


def _built(place: str, written: str) -> bytes:
    if place == "sender_name":
        return build_message(CONTENT, replace(SENDER, name=written), STABLE_ID, NOW).content
    return build_message(replace(CONTENT, **{place: written}), SENDER, STABLE_ID, NOW).content  # type: ignore[arg-type]


def _shown_name(content: bytes) -> str:
    """Whom it is to, read by the standard library's older reader: the newer one loses blanks before Python 3.12.4."""
    raw = message_from_bytes(content, policy=policy.compat32)["To"]
    return str(make_header(decode_header(parseaddr("".join(raw.splitlines()))[0])))


def _parsed(content: bytes) -> EmailMessage:
    return message_from_bytes(content, policy=policy.default)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NASTY)
def test_the_bytes_are_seven_bit_lines_that_every_server_takes(place: str, name: str) -> None:
    content = _built(place, NASTY[name])
    assert content.isascii()
    lines = content.split(b"\r\n")
    assert not any(byte in line for line in lines for byte in (b"\r", b"\n", b"\x00"))
    assert max(map(len, lines)) <= 76
    head = content.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert all(line.strip() for line in head), "a header folded into an empty line ends the headers for some readers"
    assert content.count(b"\r\n" + BOUNDARY.encode()) == 3


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NASTY)
def test_a_reader_finds_one_mail_from_one_sender_to_one_address(place: str, name: str) -> None:
    message = _parsed(_built(place, NASTY[name]))
    assert message.keys() == KEYS
    assert message["From"].addresses[0].addr_spec == SENDER.address
    assert message["To"].addresses[0].addr_spec == CONTENT.to_address
    assert (len(message["From"].addresses), len(message["To"].addresses)) == (1, 1)
    assert message["Message-ID"] == "<0193a1b2c3d4700080000000000000f2@campus.example>"
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]
    defects = [defect for part in message.walk() for defect in part.defects]
    assert not defects + [defect for key in KEYS for defect in message[key].defects]


@pytest.mark.parametrize("name", NASTY)
def test_names_are_read_as_they_were_written_on_one_line(name: str) -> None:
    shown = one_line(NASTY[name])
    assert _shown_name(_built("to_name", NASTY[name])) == shown
    assert not any(character in shown for character in "\r\n\x00\x1b\u2028\u202e")


@pytest.mark.parametrize("word", ["to_address", "reply_to"])
@pytest.mark.parametrize("name", NASTY)
def test_what_is_no_address_never_becomes_a_header(word: str, name: str) -> None:
    with pytest.raises(BadAddress):
        _built(word, f"bob@inbox.example{NASTY[name]}" if NASTY[name].strip() else "bob@")
