"""A TCP wire in front of a server, that can be cut and mended, frozen and thawed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

FREEZES_WITHIN_SECONDS = 30.0


class Wire:
    """Forwards ``127.0.0.1:port`` to a server until it is cut."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._words: bytes | None = None
        self._heard = asyncio.Event()
        self._asking, self._answering = asyncio.Event(), asyncio.Event()
        self.port = 0
        self.thaw()

    def freeze(self) -> None:
        """Let nothing through, and close nothing: the other side seems to have fallen silent."""
        self._asking.clear()
        self._answering.clear()

    def strand(self) -> None:
        """Let nothing through on the connections there are, and never again; new ones work."""
        self.freeze()
        self._asking, self._answering = asyncio.Event(), asyncio.Event()
        self.thaw()

    def freeze_answers(self) -> None:
        """Let through what is said to the server, and nothing of what it answers."""
        self._answering.clear()

    def freeze_at(self, words: bytes) -> None:
        """Freeze as soon as somebody says ``words`` to the server; these do not get through any more."""
        self._heard.clear()
        self._words = words

    async def has_frozen(self) -> None:
        """Return once what ``freeze_at`` waits for was said."""
        async with asyncio.timeout(FREEZES_WITHIN_SECONDS):
            await self._heard.wait()

    def thaw(self) -> None:
        """Let everything through again, also what was held back."""
        self._words = None
        self._asking.set()
        self._answering.set()

    def lead_to(self, host: str, port: int) -> None:
        """Forward new connections to another server."""
        self._target = (host, port)

    @property
    def is_cut(self) -> bool:
        """Whether it takes no connections."""
        return self._server is None

    async def mend(self) -> None:
        """Take connections (again)."""
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Break every connection and refuse new ones."""
        if self._server is not None:
            self._server.close()
        for writer in self._open:
            writer.transport.abort()
        if self._server is not None:
            await self._server.wait_closed()
        self._server = None

    async def renew(self) -> None:
        """Break every connection, lose what was held back, and work again."""
        await self.cut()
        self.thaw()
        await self.mend()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, there_writer}
        with contextlib.suppress(OSError):
            await asyncio.gather(self._ask(reader, there_writer), self._answer(there_reader, writer))
        for end in (writer, there_writer):
            self._open.discard(end)
            end.close()

    async def _ask(self, client: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        flowing = self._asking
        try:
            while chunk := await client.read(65536):
                if self._words is not None and self._words in chunk:
                    self._words = None
                    self.freeze()
                    self._heard.set()
                await _pass_on(chunk, server, flowing)
        finally:
            server.close()

    async def _answer(self, server: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        flowing = self._answering
        try:
            while chunk := await server.read(65536):
                await _pass_on(chunk, client, flowing)
        finally:
            client.close()


async def _pass_on(chunk: bytes, sink: asyncio.StreamWriter, flowing: asyncio.Event) -> None:
    await flowing.wait()
    if sink.is_closing():
        raise ConnectionResetError("the wire was cut")
    sink.write(chunk)
    await sink.drain()


@asynccontextmanager
async def wire_to(host: str, port: int) -> AsyncIterator[Wire]:
    """A wire to ``host:port`` that works."""
    wire = Wire(host, port)
    await wire.mend()
    try:
        yield wire
    finally:
        wire.thaw()
        await wire.cut()
