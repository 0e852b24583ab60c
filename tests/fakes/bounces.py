"""Bounces as mail systems write them, built of a few words."""

PAT, SAM = "pat.lee@dest.example", "sam.kim@dest.example"
DAEMON = "Mail Delivery System <MAILER-DAEMON@mx.relay.example>"
COPY = f"""Return-Path: <bounces@mail.shop.example>
Message-ID: <0193@mail.shop.example>
From: Shop <orders@shop.example>
To: Pat <{PAT}>
Subject: Your order

Hello Pat, write to help@shop.example
"""


def mail(
    text: str, subject: str = "Undelivered Mail Returned to Sender", sender: str = DAEMON, headers: str = ""
) -> bytes:
    """A mail with the null return path, ``text`` as its body."""
    head = f"Return-Path: <>\nFrom: {sender}\nTo: bounces@mail.shop.example\nSubject: {subject}\n{headers}"
    return f"{head}\n{text}".encode()


def report(*recipients: str, text: str = "Something went wrong.", kind: str = "message/delivery-status") -> bytes:
    """A report of RFC 3464: ``text``, what it says of ``recipients``, and the mail that came back."""
    parts = [
        f"Content-Type: text/plain\n\n{text}\n",
        f"Content-Type: {kind}\n\nReporting-MTA: dns; mx.relay.example\n\n" + "\n\n".join(recipients) + "\n",
        f"Content-Type: message/rfc822\n\n{COPY}",
    ]
    body = "".join(f"--B\n{part}\n" for part in parts) + "--B--\n"
    return mail(
        body, headers='MIME-Version: 1.0\nContent-Type: multipart/report; report-type=delivery-status; boundary="B"\n'
    )


def recipient(status: str, diagnostic: str = "", action: str = "failed", address: str = PAT) -> str:
    """The fields of one recipient in a report."""
    lines = [f"Final-Recipient: rfc822; {address}", f"Action: {action}", f"Status: {status}"]
    return "\n".join([*lines, f"Diagnostic-Code: {diagnostic}"] if diagnostic else lines)
