"""A mail says what it was told to say, to one address, in lines that every server takes."""

from dataclasses import replace
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.message import EmailMessage
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.email.addresses import BadAddress
from services.email.headers import one_line
from services.email.message import build_message
from shared.content import UNSUBSCRIBE_PLACE, EmailContent
from shared.tenant import EmailSender

STABLE_ID = UUID("0193a1b2c3d4700080000000000000f2")
NOW = datetime(2026, 12, 1, 14, 0, tzinfo=UTC)
SENDER = EmailSender("hello@campus.example", "CampusCritique", "help@campus.example")
CONTENT = EmailContent("bob@inbox.example", "Hello", "Text\n", "<p>Text</p>\n", "de-AT", to_name="Bob")
HEADERS = [
    "From",
    "To",
    "Reply-To",
    "Subject",
    "Date",
    "Message-ID",
    "Auto-Submitted",
    "Content-Language",
    "MIME-Version",
    "Content-Type",
]

texts = st.text(st.characters(codec="utf-8"), max_size=400)


def _build(sender: EmailSender = SENDER, **fields: str | None) -> bytes:
    return build_message(replace(CONTENT, **fields), sender, STABLE_ID, NOW).content  # type: ignore[arg-type]


def _parse(content: bytes) -> EmailMessage:
    return message_from_bytes(content, policy=policy.default)


def _header(content: bytes, name: str) -> str:
    """The header decoded by the standard library's older reader, which joins encoded words as RFC 2047 says."""
    raw = message_from_bytes(content, policy=policy.compat32)[name]
    return str(make_header(decode_header("".join(raw.splitlines()))))


def _part(content: bytes, subtype: str) -> str:
    body = _parse(content).get_body((subtype,))
    assert body is not None
    text: str = body.get_content()
    return text.replace("\r\n", "\n")


def test_a_mail_has_these_headers_and_no_others() -> None:
    message = _parse(_build())
    assert message.keys() == HEADERS
    assert message["From"] == "CampusCritique <hello@campus.example>"
    assert message["To"] == "Bob <bob@inbox.example>"
    assert message["Reply-To"] == "help@campus.example"
    assert message["Date"] == "Tue, 01 Dec 2026 14:00:00 +0000"
    assert message["Message-ID"] == "<0193a1b2c3d4700080000000000000f2@campus.example>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Content-Language"] == "de-AT"
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]
    assert not message.defects


def test_the_message_id_does_not_change_with_time_or_content() -> None:
    later = build_message(replace(CONTENT, subject="Other"), SENDER, STABLE_ID, NOW.replace(hour=20))
    assert _parse(later.content)["Message-ID"] == _parse(_build())["Message-ID"]


def test_the_contents_own_reply_to_comes_before_the_senders() -> None:
    assert _parse(_build(reply_to="visitor@web.example"))["Reply-To"] == "visitor@web.example"


def test_without_any_reply_to_there_is_no_such_header() -> None:
    assert "Reply-To" not in _parse(_build(replace(SENDER, reply_to=None)))


def test_ampersands_in_a_subject_stay_ampersands() -> None:
    assert b"Subject: Tom & Jerry <3\r\n" in _build(subject="Tom & Jerry <3")


def test_an_html_entity_is_left_alone_in_text() -> None:
    assert _part(_build(text="a &amp; b = c\n"), "plain") == "a &amp; b = c\n"


@pytest.mark.parametrize(
    "hostile",
    [
        "x\r\nBcc: eve@evil.example",
        "x\nBcc: eve@evil.example",
        "x\rBcc: eve@evil.example",
        "x\r\n\r\n<script>",
        "x\u2028Bcc: eve@evil.example",
        "x\x85Bcc: eve@evil.example",
        "x\x0bBcc: eve@evil.example",
        "x\x00Bcc: eve@evil.example",
        "=?utf-8?q?x=0D=0ABcc:_eve=40evil.example?=",
        'x" <eve@evil.example>, "y',
        "x>, eve@evil.example, <y",
        "\\",
        '"',
        "a, b; c: d",
    ],
)
def test_hostile_names_and_subjects_add_no_header_and_no_address(hostile: str) -> None:
    content = _build(replace(SENDER, name=hostile), subject=hostile, to_name=hostile)
    message = _parse(content)
    assert message.keys() == HEADERS
    assert [(a.username, a.domain) for a in message["To"].addresses] == [("bob", "inbox.example")]
    assert [(a.username, a.domain) for a in message["From"].addresses] == [("hello", "campus.example")]
    assert _header(content, "Subject") == one_line(hostile)


@settings(deadline=None)
@given(subject=texts, to_name=texts)
def test_any_subject_and_name_arrive_as_they_were_but_for_their_blanks(subject: str, to_name: str) -> None:
    content = _build(subject=subject, to_name=to_name)
    assert _header(content, "Subject") == one_line(subject)
    assert _parse(content)["To"].addresses[0].addr_spec == "bob@inbox.example"
    assert _parse(content).keys() == HEADERS


@settings(deadline=None)
@given(text=texts, html=texts)
def test_any_text_arrives_as_it_was(text: str, html: str) -> None:
    content = _build(text=text, html=html)
    for given_text, subtype in ((text, "plain"), (html, "html")):
        assert _part(content, subtype) == given_text.replace("\r\n", "\n").replace("\r", "\n")


@settings(deadline=None)
@given(subject=texts, name=texts, text=texts, html=texts)
def test_every_line_is_short_ascii_and_ends_with_crlf(subject: str, name: str, text: str, html: str) -> None:
    content = _build(replace(SENDER, name=name), subject=subject, to_name=name, text=text, html=html)
    assert content.isascii()
    lines = content.split(b"\r\n")
    assert not any(b"\r" in line or b"\n" in line or b"\x00" in line for line in lines)
    assert max(map(len, lines)) <= 200
    assert not any(line.startswith(b"From ") for line in lines)


def test_text_that_is_mostly_beyond_ascii_takes_the_shorter_encoding() -> None:
    assert b"Content-Transfer-Encoding: base64" in _build(text="наука и жизнь " * 100)
    assert b"Content-Transfer-Encoding: base64" not in _build(text="Grüße aus Köln, und bis bald. " * 100)


@pytest.mark.parametrize("locale", ["", "de_DE", "en\r\nX: y", "x" * 40])
def test_a_locale_that_is_no_language_tag_is_left_out(locale: str) -> None:
    assert "Content-Language" not in _parse(_build(locale=locale))


@pytest.mark.parametrize("address", ["bob", "a@x.example,b@x.example", "bob@x.example\r\nX: y", "jürgen@x.example", ""])
def test_an_address_that_is_none_is_refused_with_its_place(address: str) -> None:
    with pytest.raises(BadAddress) as to:
        _build(to_address=address)
    with pytest.raises(BadAddress) as sender:
        _build(EmailSender(address))
    assert (to.value.place, sender.value.place) == ("to", "from")


def test_a_reply_to_that_is_no_address_is_refused_with_its_place() -> None:
    with pytest.raises(BadAddress, match="reply_to needs an @"):
        _build(reply_to="visitor")


def test_a_link_to_unsubscribe_stands_in_two_headers_that_are_never_folded() -> None:
    link = f"https://waybill.example/unsubscribe/{'x' * 200}"
    mail = build_message(CONTENT, SENDER, STABLE_ID, NOW, unsubscribe=link).content
    assert f"\r\nList-Unsubscribe: <{link}>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n".encode() in mail


@pytest.mark.parametrize(
    "link",
    [
        *(
            "https://ä.example/",
            "https://waybill.example/" + "x" * 1_000,
            "https://w.example/\r\nBcc: eve@evil.example",
        ),
        *("https://w.example/>, <https://evil.example/", "https://w.example/a b", "", None),
    ],
)
def test_a_link_that_no_header_takes_is_left_out(link: str | None) -> None:
    assert b"List-Unsubscribe" not in build_message(CONTENT, SENDER, STABLE_ID, NOW, unsubscribe=link).content


def test_people_find_the_link_where_the_layout_has_a_place_for_it_and_at_the_end_of_the_text() -> None:
    content = replace(CONTENT, html=f"<p>Text</p><i>{UNSUBSCRIBE_PLACE}</i>")
    mail = build_message(content, SENDER, STABLE_ID, NOW, unsubscribe="https://w.example/u?a=1&b=2").content
    assert _part(mail, "plain") == "Text\n\nAbbestellen: https://w.example/u?a=1&b=2\n"
    anchor = '<a href="https://w.example/u?a=1&amp;b=2" style="color:inherit;">Abbestellen</a>'
    assert _part(mail, "html") == f"<p>Text</p><i>{anchor}</i>"


def test_without_a_link_nothing_is_left_of_its_place() -> None:
    mail = build_message(replace(CONTENT, html=f"<p>Text</p>{UNSUBSCRIBE_PLACE}"), SENDER, STABLE_ID, NOW).content
    assert (_part(mail, "plain"), _part(mail, "html")) == ("Text\n", "<p>Text</p>")
