"""A rendered mail as the bytes that go over the wire."""

import re
from base64 import encodebytes
from binascii import b2a_qp
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from html import escape
from uuid import UUID

from services.email.addresses import check_address
from services.email.headers import mailbox_header, text_header, unsubscribe_headers
from shared.content import UNSUBSCRIBE_PLACE, EmailContent
from shared.rendering.words import unsubscribe_word
from shared.tenant import EmailSender

_LINE_END = re.compile(r"\r\n|\r|\n")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8}){0,3}", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Message:
    """One mail to one address, in lines that end with CRLF, in ASCII throughout."""

    envelope_from: str
    envelope_to: str
    content: bytes
    envelope_id: str


def build_message(
    content: EmailContent,
    sender: EmailSender,
    stable_id: UUID,
    now: datetime,
    *,
    return_path: str | None = None,
    unsubscribe: str | None = None,
) -> Message:
    """The mail from ``sender``; its Message-ID is made from ``stable_id`` and so the same at every attempt.

    What comes back goes to ``return_path``, or else to the sender's address. A POST to the link ``unsubscribe``
    ends such mails; people find it at the end of the text, and in the HTML where the layout has a place for it.

    Raises BadAddress for an address that cannot be used.
    """
    check_address("from", sender.address)
    check_address("to", content.to_address)
    reply_to = content.reply_to or sender.reply_to
    if reply_to is not None:
        check_address("reply_to", reply_to)
    boundary = f"=_{stable_id.hex}"
    headers = [
        mailbox_header("From", sender.name, sender.address),
        mailbox_header("To", content.to_name, content.to_address),
        mailbox_header("Reply-To", None, reply_to) if reply_to else "",
        text_header("Subject", content.subject),
        f"Date: {format_datetime(now)}\r\n",
        # Never folded: some receivers compare the line as it stands.
        f"Message-ID: {message_id(sender, stable_id)}\r\n",
        "Auto-Submitted: auto-generated\r\n",
        unsubscribe_headers(unsubscribe),
        f"Content-Language: {content.locale}\r\n" if _LANGUAGE.fullmatch(content.locale) else "",
        "MIME-Version: 1.0\r\n",
        f'Content-Type: multipart/alternative;\r\n boundary="{boundary}"\r\n\r\n',
    ]
    # No encoded part can contain "=_": quoted-printable has only digits after "=", base64 ends with it.
    body = (
        f"--{boundary}\r\n".encode(),
        _part("plain", _with_link(content, unsubscribe)),
        f"--{boundary}\r\n".encode(),
        _part("html", content.html.replace(UNSUBSCRIBE_PLACE, _anchor(content, unsubscribe))),
        f"--{boundary}--\r\n".encode(),
    )
    whole = "".join(headers).encode("ascii") + b"".join(body)
    return Message(return_path or sender.address, content.to_address, whole, stable_id.hex)


def message_id(sender: EmailSender, stable_id: UUID) -> str:
    """The Message-ID, angle brackets included."""
    return f"<{stable_id.hex}@{sender.address.rpartition('@')[2]}>"


def _with_link(content: EmailContent, link: str | None) -> str:
    return content.text if link is None else f"{content.text.rstrip()}\n\n{unsubscribe_word(content.locale)}: {link}\n"


def _anchor(content: EmailContent, link: str | None) -> str:
    if link is None:
        return ""
    # The colour of what is around it: a layout of the tenant's own may be of any.
    return f'<a href="{escape(link)}" style="color:inherit;">{escape(unsubscribe_word(content.locale))}</a>'


def _part(subtype: str, text: str) -> bytes:
    encoding, body = _encode(_LINE_END.sub("\r\n", _SURROGATE.sub("\ufffd", text)).encode())
    head = f"Content-Type: text/{subtype}; charset=utf-8\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n"
    # The line end before a boundary belongs to the boundary, so the text's own last one needs another.
    return head.encode() + body + b"\r\n"


def _encode(text: bytes) -> tuple[str, bytes]:
    """The encoding and the encoded text: quoted-printable, which people can read, unless base64 is shorter."""
    # b2a_qp leaves lines that begin with "From " alone, and a mail store may put a ">" before them.
    # Its soft line ends are bare where the text has no line end to learn from.
    printable = b2a_qp(text, istext=True).replace(b"\r\n", b"\n").replace(b"\nFrom ", b"\n=46rom ")
    if printable.startswith(b"From "):
        printable = b"=46" + printable[1:]
    if len(printable) > len(text) * 3 // 2 + 256:
        return "base64", encodebytes(text).replace(b"\n", b"\r\n")
    return "quoted-printable", printable.replace(b"\n", b"\r\n")
