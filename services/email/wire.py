"""The bytes of one connection of the bounce listener: lines and mails in, answers out, within bounds."""

import asyncio
from dataclasses import dataclass

CHUNK = 16 * 1024
LONGEST_LINE = 2_000
"""Of a command; RFC 5321 has 512 and lets extensions add to it."""
_END = b"\r\n.\r\n"


class WireError(Exception):
    """The other side did what ends the connection; ``answer`` is the last thing it is told."""

    def __init__(self, answer: str) -> None:
        super().__init__(answer)
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one mail may cost: up to ``largest`` bytes are read, and the first ``kept`` of them stay in memory.

    What tells of a bounce stands before the copy of what bounced.
    """

    largest: int = 10 << 20
    kept: int = 256 << 10
    silence_seconds: float = 60.0
    """How long one line, or one piece of a mail, or the reading of an answer may take."""


class Wire:
    """One connection. Whatever is read or written raises TimeoutError after the silence, ConnectionError at its end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bounds: Bounds) -> None:
        self._reader = reader
        self._writer = writer
        self._bounds = bounds
        self._buffer = bytearray()

    async def read_line(self) -> str:
        """The next command, without its end. Raises WireError where it is none."""
        async with asyncio.timeout(self._bounds.silence_seconds):
            while (at := self._buffer.find(b"\n")) < 0 and len(self._buffer) <= LONGEST_LINE:
                await self._read_more()
        line = bytes(self._buffer[: at + 1])
        del self._buffer[: at + 1]
        if at < 0 or len(line) > LONGEST_LINE:
            raise WireError("500 5.5.2 this line is too long")
        if not line.endswith(b"\r\n"):
            # Who takes LF alone for the end of a line can be made to see commands inside of a mail.
            raise WireError("500 5.5.2 lines end with CR LF")
        text = line[:-2].decode("utf-8", "replace")
        if not text.isprintable():
            raise WireError("500 5.5.2 there is a control character in this line")
        return text

    async def read_mail(self) -> bytes:
        """The beginning of the mail up to its lone dot, as it was before dots were doubled. WireError: it is too large.

        Only CR LF . CR LF ends it, and lines may be as long as they like.
        """
        # The end of the line DATA belongs to it: a mail may be nothing but its end.
        self._buffer[:0] = b"\r\n"
        kept, size = bytearray(), 0
        while (at := self._buffer.find(_END)) < 0:
            sure = len(self._buffer) - len(_END) + 1
            size += self._move(kept, max(sure, 0))
            if size > self._bounds.largest:
                raise WireError("552 5.3.4 this mail is too large")
            async with asyncio.timeout(self._bounds.silence_seconds):
                await self._read_more()
        self._move(kept, at)
        del self._buffer[: len(_END)]
        return bytes(kept.replace(b"\r\n.", b"\r\n").removeprefix(b"\r\n"))

    async def say(self, answer: str) -> None:
        """Send ``answer``, one line or several; who does not read it is not waited for any longer than for a line."""
        self._writer.write(answer.replace("\n", "\r\n").encode() + b"\r\n")
        async with asyncio.timeout(self._bounds.silence_seconds):
            await self._writer.drain()

    def _move(self, kept: bytearray, count: int) -> int:
        kept += self._buffer[: min(count, self._bounds.kept - len(kept))]
        del self._buffer[:count]
        return count

    async def _read_more(self) -> None:
        chunk = await self._reader.read(CHUNK)
        if not chunk:
            raise ConnectionResetError("the other side has hung up")
        self._buffer += chunk
