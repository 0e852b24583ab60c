"""A relay in a process of its own, fast enough to measure against: it takes its time for every answer, and counts."""

import argparse
import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import uvloop

from tests.factories import WAIT_SECONDS

_MESSAGE_ID = re.compile(rb"^Message-ID: ?(.*?)\r?$", re.MULTILINE | re.IGNORECASE)
_END = b"\r\n.\r\n"
TALLY = b"TALLY"
"""The command that no other relay has: it says how many mails there were."""


@dataclass(frozen=True)
class Tally:
    """What a relay has seen: mails it took to the final dot, how many were different ones, connections it hung up."""

    mails: int
    distinct: int
    connections: int
    dropped: int


@dataclass(frozen=True)
class SlowRelay:
    """One that runs, on ``port`` of this machine."""

    port: int

    async def tally(self) -> Tally:
        """What it has seen so far."""
        async with asyncio.timeout(WAIT_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(TALLY + b"\r\n")
            await reader.readline()
            told = await reader.readline()
            writer.close()
        return Tally(**json.loads(told.partition(b" ")[2]))


@dataclass
class _Book:
    """What all dialogues write into. Each ``drop_every``-th MAIL is answered by hanging up; 0: none is."""

    delay: float
    drop_every: int
    seen: Counter[bytes] = field(default_factory=Counter)
    begun: int = 0
    connections: int = 0
    dropped: int = 0

    def drops(self) -> bool:
        self.begun += 1
        if not self.drop_every or self.begun % self.drop_every:
            return False
        self.dropped += 1
        return True

    def tally(self) -> bytes:
        told = Tally(self.seen.total(), len(self.seen), self.connections, self.dropped)
        return json.dumps(vars(told)).encode()


class _Dialogue(asyncio.Protocol):
    """One connection."""

    def __init__(self, book: _Book) -> None:
        self._book = book
        self._came = bytearray()
        self._in_mail = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet."""
        # Not every loop's transports inherit from asyncio's class.
        self._transport = cast("asyncio.Transport", transport)
        self._loop = asyncio.get_running_loop()
        self._book.connections += 1
        self._say(b"220 relay.test ESMTP")

    def data_received(self, data: bytes) -> None:
        """Obey what is there as a whole."""
        self._came += data
        while self._take():
            pass

    def _take(self) -> bool:
        end = _END if self._in_mail else b"\r\n"
        whole, found, rest = self._came.partition(end)
        if not found:
            return False
        self._came = rest
        if self._in_mail:
            self._in_mail = False
            known = _MESSAGE_ID.search(whole)
            self._book.seen[bytes(known[1]) if known else b""] += 1
            self._say(b"250 2.0.0 queued")
        else:
            self._obey(bytes(whole[:4]).upper())
        return True

    def _obey(self, verb: bytes) -> None:
        match verb:
            case b"MAIL" if self._book.drops():
                self._transport.abort()
            case b"DATA":
                self._in_mail = True
                self._say(b"354 go ahead")
            case b"QUIT":
                self._say(b"221 2.0.0 bye")
                self._loop.call_later(self._book.delay, self._transport.close)
            case b"TALL":
                self._say(b"250 " + self._book.tally())
            case _:
                self._say(b"250 ok")

    def _say(self, words: bytes) -> None:
        self._loop.call_later(self._book.delay, self._transport.write, words + b"\r\n")


@asynccontextmanager
async def slow_relay(delay_ms: float, drop_every: int = 0) -> AsyncIterator[SlowRelay]:
    """A relay that answers each command after ``delay_ms``."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fakes.relay", "--delay-ms", str(delay_ms), "--drop-every", str(drop_every)),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(WAIT_SECONDS):
            port = int(await process.stdout.readline())
        yield SlowRelay(port)
    finally:
        process.kill()
        await process.wait()


async def _serve(delay_ms: float, drop_every: int) -> None:
    book = _Book(delay_ms / 1000, drop_every)
    server = await asyncio.get_running_loop().create_server(lambda: _Dialogue(book), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delay-ms", type=float, required=True)
    parser.add_argument("--drop-every", type=int, default=0)
    given = parser.parse_args()
    uvloop.run(_serve(given.delay_ms, given.drop_every))
