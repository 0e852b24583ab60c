"""What the bounce listener reads off the wire, however its bytes are cut, and how little of it stays."""

import asyncio
from typing import Any

import pytest

from services.email.wire import Bounds, Wire, WireError


class Deaf:
    """A writer that nothing is written to."""


def wire_of(raw: bytes, bounds: Bounds | None = None, piece: int = 1 << 20) -> Wire:
    """A wire on which ``raw`` comes in pieces, then the end."""

    class Reader:
        left = raw

        async def read(self, most: int) -> bytes:
            count = min(most, piece)
            chunk, self.left = self.left[:count], self.left[count:]
            return chunk

    reader: Any = Reader()
    writer: Any = Deaf()
    return Wire(reader, writer, bounds or Bounds())


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (b".\r\n", b""),
        (b"\r\n.\r\n", b""),
        (b"a: b\r\n\r\nhello\r\n.\r\n", b"a: b\r\n\r\nhello"),
        (b"..a\r\n...\r\nb.\r\n.\r\n", b".a\r\n..\r\nb."),
        (b"x\n.\ny\r.\rz\n.\r\nend\r\n.\n\r\n.\r\n", b"x\n.\ny\r.\rz\n.\r\nend\r\n\n"),
        (b"\xff\0" * 3000 + b"\r\n.\r\n", b"\xff\0" * 3000),
    ],
)
async def test_a_mail_ends_at_its_lone_dot_and_nowhere_else(sent: bytes, meant: bytes, piece: int) -> None:
    wire = wire_of(sent + b"QUIT\r\n", piece=piece)
    assert await wire.read_mail() == meant
    assert await wire.read_line() == "QUIT"


async def test_only_the_beginning_of_a_mail_is_kept() -> None:
    raw = b"begins\r\n" + b"x" * 300_000 + b"\r\n.\r\n"
    assert await wire_of(raw, Bounds(kept=100)).read_mail() == b"begins\r\n" + b"x" * 90


@pytest.mark.parametrize("filler", [b"x", b"\n", b"\r\n", b"\r\n.x"])
async def test_a_mail_beyond_the_limit_is_not_read_to_its_end(filler: bytes) -> None:
    with pytest.raises(WireError, match="552"):
        await wire_of(filler * 200_000, Bounds(largest=100_000)).read_mail()


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"x" * 5000, "too long"),
        (b"NOOP " + b"x" * 3000 + b"\r\n", "too long"),
        (b"NOOP\n", "CR LF"),
        (b"MAIL FROM:<a\rSubject: b>\r\n", "control"),
        (b"NOOP \0\r\n", "control"),
    ],
)
async def test_a_line_that_is_no_command_ends_the_connection(raw: bytes, told: str) -> None:
    with pytest.raises(WireError, match=told):
        await wire_of(raw).read_line()


async def test_a_connection_that_ends_in_a_mail_leaves_no_mail() -> None:
    with pytest.raises(ConnectionError):
        await wire_of(b"a: b\r\n\r\nhello\r\n").read_mail()


async def test_silence_is_not_waited_out() -> None:
    writer: Any = Deaf()
    wire = Wire(asyncio.StreamReader(), writer, Bounds(silence_seconds=0.05))
    for read in (wire.read_line, wire.read_mail):
        with pytest.raises(TimeoutError):
            await read()
