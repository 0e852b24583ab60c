"""A TCP wire in front of a server, that can be cut and mended, frozen and thawed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Wire:
    """Forwards ``127.0.0.1:port`` to a server until it is cut."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.port = 0

    def freeze(self) -> None:
        """Let nothing through, and close nothing: the other side seems to have fallen silent."""
        self._flowing.clear()

    def thaw(self) -> None:
        """Let everything through again, also what was held back."""
        self._flowing.set()

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

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(*self._target)
        self._open |= {writer, there_writer}
        with contextlib.suppress(OSError):
            await asyncio.gather(self._copy(reader, there_writer), self._copy(there_reader, writer))
        for end in (writer, there_writer):
            self._open.discard(end)
            end.close()

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while chunk := await source.read(65536):
                await self._flowing.wait()
                sink.write(chunk)
                await sink.drain()
        finally:
            sink.close()


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
