"""Mails made to hurt their reader: they are read to their end, in time that grows with their length alone."""

from collections.abc import Callable
from time import thread_time

import pytest

from services.email.bounces import classify
from tests.fakes.bounces import DAEMON, PAT, mail, recipient, report


def nested(depth: int) -> bytes:
    opening = "".join(f'Content-Type: multipart/mixed; boundary="b{n}"\n\n--b{n}\n' for n in range(depth))
    return (
        f"From: {DAEMON}\nSubject: failure notice\nReturn-Path: <>\n{opening}\n550 5.1.1 user unknown {PAT}\n".encode()
    )


@pytest.mark.parametrize(
    "raw",
    [
        nested(1_000),
        b"From: MAILER-DAEMON\nReturn-Path: <>\n" + b"X-Long: " + b"a" * 3_000_000 + b"\n\nbody",
        b"From: MAILER-DAEMON\nReturn-Path: <>\n" + b"X: y\n" * 200_000 + b"\nbody",
        b"From: MAILER-DAEMON\nReturn-Path: <>\nSubject: " + b"=?utf-8?q?=00=ff?= " * 20_000 + b"\n\nbody",
        mail(f"<{PAT}>: " + "very long " * 300_000),
        mail("a@b.example " * 200_000),
        mail("<" * 1_000_000, headers="Content-Type: text/html\n"),
        mail("--B\n" * 300_000, headers="Content-Type: multipart/report; boundary=B\n"),
        report(*[recipient("5.1.1", "smtp; 550 5.1.1 user unknown", address=f"p{n}@d.example") for n in range(5_000)]),
        mail("\xff\xfe", headers="Content-Type: text/plain; charset=unicode-escape\n"),
        mail("text", headers="Content-Type: text/plain; charset=\x00nonsense\xff\n"),
        mail("text", "=?utf-8?b?A?= =?utf-8?q?=?= =?utf-8?b?=?="),
        mail("=" * 500_000, headers="Content-Transfer-Encoding: quoted-printable\n"),
        b"",
        b"\n\n\n",
        b"\0" * 1_000_000,
    ],
    ids=range(16),
)  # fmt: skip
def test_hostile_mails_are_read_to_their_end(raw: bytes) -> None:
    assert all(kind for _, kind, _ in classify(raw))


GROWING: dict[str, Callable[[int], bytes]] = {
    "line ends": lambda size: mail("x" + "\n" * size),
    "dashes": lambda size: mail("x\n" + "-" * size),
    "lines of dashes": lambda size: mail("x\n" + "-\n" * (size // 2)),
    "blanks": lambda size: mail("x\n" + " " * size),
    "unclosed styles": lambda size: mail("<style " * (size // 2), headers="Content-Type: text/html\n"),
    "boundaries": lambda size: mail("--B" * size, headers="Content-Type: multipart/report; boundary=B\n"),
    "addresses": lambda size: mail("\n\n\n".join(f">>> p{n}@d.example" for n in range(size // 20))),
    "frames": lambda size: mail(
        "\n".join(f"<p{n}@d.example>" for n in range(50)) + "\n\n" + "could not be delivered to" * (size // 25)
    ),
    "lines of one": lambda size: mail("\n".join(f"{PAT} {n}" for n in range(size // 12))),
    "indented lines": lambda size: mail(
        (" " * 80 + "\n") * (size // 100) + "".join(f"x p{n}@d.example\n" for n in range(200))
    ),
    "subject": lambda size: mail("text", "mail" * (size // 12), sender="Pat <pat@x.example>"),
}
UNNOTICED_SECONDS = 0.25
"""Of a processor: what is faster than that may grow as it likes."""


@pytest.mark.parametrize("hostile", GROWING.values(), ids=GROWING)
def test_reading_a_mail_takes_no_longer_than_its_length_explains(hostile: Callable[[int], bytes]) -> None:
    small, large = processor_seconds(hostile(15_000)), processor_seconds(hostile(60_000))
    # Four times the length is four times the work; it would be sixteen times if each place were compared with each.
    assert large < 10 * max(small, UNNOTICED_SECONDS / 10)


def processor_seconds(raw: bytes) -> float:
    before = thread_time()
    classify(raw)
    return thread_time() - before
