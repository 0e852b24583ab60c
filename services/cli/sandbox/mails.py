"""A caught mail as people read it: headers decoded, text and HTML side by side."""

from collections.abc import Iterator
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.policy import compat32

from msgspec import Struct

from services.cli.sandbox.mailcatcher import CaughtMail
from shared.web.instant import write_instant


class CaughtOut(Struct, tag_field="channel", tag="email", rename={"sender": "from"}):
    """One mail in the sink. ``from`` and ``to`` are those of the envelope; repeated headers are joined by newlines.

    ``raw`` is the mail as it came, bytes that are no UTF-8 replaced.
    """

    received_at: str
    sender: str
    to: str
    subject: str
    message_id: str
    text: str | None
    html: str | None
    headers: dict[str, str]
    raw: str


def show_mail(mail: CaughtMail) -> CaughtOut:
    """``mail`` in words; one that is broken is shown as far as it can be read."""
    # The older policy never fails on a header, however broken.
    message = message_from_bytes(mail.content, policy=compat32)
    headers: dict[str, str] = {}
    for name, value in message.items():
        text = _decode(str(value))
        headers[name] = f"{headers[name]}\n{text}" if name in headers else text
    found = {name.lower(): text for name, text in headers.items()}
    return CaughtOut(
        received_at=write_instant(mail.received_at),
        sender=mail.envelope_from,
        to=", ".join(mail.envelope_to),
        subject=found.get("subject", ""),
        message_id=found.get("message-id", ""),
        text=next(_parts(message, "text/plain"), None),
        html=next(_parts(message, "text/html"), None),
        headers=headers,
        raw=mail.content.decode("utf-8", "replace"),
    )


def _decode(value: str) -> str:
    unfolded = "".join(value.splitlines())
    try:
        text = str(make_header(decode_header(unfolded)))
    except (HeaderParseError, LookupError, ValueError):
        text = unfolded
    return text.encode(errors="replace").decode()


def _parts(message: Message, content_type: str) -> Iterator[str]:
    for part in message.walk():
        payload = part.get_payload(decode=True)
        if part.get_content_type() != content_type or not isinstance(payload, bytes):
            continue
        try:
            text = payload.decode(part.get_content_charset() or "utf-8", "replace")
        except LookupError:
            text = payload.decode("utf-8", "replace")
        yield text.replace("\r\n", "\n")
