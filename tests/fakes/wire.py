"""A TCP connection to a real server that can be frozen and cut."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class Wire:
    """Everything that goes through here goes on to ``host``:``port``, while it may."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._open: set[asyncio.StreamWriter] = set()
        self._cut = False

    def freeze(self) -> None:
        """Let nothing through, and close nothing: the other side seems to have fallen silent."""
        self._flowing.clear()

    def thaw(self) -> None:
        """Let everything through again, also what was held back."""
        self._flowing.set()

    def cut(self) -> None:
        """Break every connection and take no new one."""
        self._cut = True
        for writer in self._open:
            writer.transport.abort()

    def mend(self) -> None:
        """Take connections again."""
        self._cut = False

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until either side ends it."""
        if self._cut:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        self._open |= {writer, far_writer}
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, far_writer))
                both.create_task(self._pump(far_reader, writer))
        finally:
            self._open -= {writer, far_writer}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(65_536):
                await self._flowing.wait()
                writer.write(chunk)
                await writer.drain()
        writer.transport.abort()


@asynccontextmanager
async def wire_to(url: str) -> AsyncIterator[tuple[Wire, str]]:
    """A wire to the server of ``url``, and the URL that leads through it."""
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    wire = Wire(parts.hostname, parts.port)
    server = await asyncio.start_server(wire.carry, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    credentials = f"{parts.username}:{parts.password}@" if parts.password else f"{parts.username}@"
    try:
        yield wire, parts._replace(netloc=f"{credentials}127.0.0.1:{port}").geturl()
    finally:
        server.close()
        wire.thaw()
        wire.cut()
