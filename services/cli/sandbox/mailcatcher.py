"""A mail server that delivers nothing: it keeps the newest mails in memory, to be looked at."""

import asyncio
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope, Session

from shared.lifecycle import Part
from shared.web.server import take_port

MOST_MAILS = 1000
MOST_BYTES = 64 * 1024 * 1024
LARGEST_MAIL = 10 * 1024 * 1024
_NAME = "sandbox.localhost"


@dataclass(frozen=True, slots=True)
class CaughtMail:
    """One mail as it came over the wire."""

    received_at: datetime
    envelope_from: str
    envelope_to: tuple[str, ...]
    content: bytes


@dataclass(frozen=True)
class MailPart(Part):
    """A part that takes mail on ``port`` (the one it really got where 0 was asked for)."""

    port: int


class MailCatcher:
    """The newest mails: at most ``most_mails`` of them, and ``most_bytes`` in all."""

    def __init__(self, most_mails: int = MOST_MAILS, most_bytes: int = MOST_BYTES) -> None:
        self._most_mails = most_mails
        self._most_bytes = most_bytes
        self._mails: deque[CaughtMail] = deque()
        self._bytes = 0

    def newest(self, limit: int) -> Sequence[CaughtMail]:
        """At most ``limit`` mails, newest first."""
        return [self._mails[-number] for number in range(1, min(limit, len(self._mails)) + 1)]

    def keep(self, mail: CaughtMail) -> None:
        """Take ``mail``, and let go of the oldest ones where there are too many."""
        self._mails.append(mail)
        self._bytes += len(mail.content)
        while len(self._mails) > self._most_mails or (self._bytes > self._most_bytes and len(self._mails) > 1):
            self._bytes -= len(self._mails.popleft().content)

    def part(self, host: str, port: int) -> MailPart:
        """A part that catches mail on ``host``:``port``. The port is taken at once (CannotListen)."""
        bound = take_port(host, port)

        async def run(stop: asyncio.Event) -> None:
            # The loop closes what it is given; the port stays ours in case the part has to start again.
            await self._serve(bound.dup(), stop)
            bound.close()

        return MailPart("mail-catcher", run, int(bound.getsockname()[1]))

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd calls it by this name
        """Take one mail; aiosmtpd calls it by this name."""
        content = envelope.content if isinstance(envelope.content, bytes) else b""
        recipients = tuple(str(recipient) for recipient in envelope.rcpt_tos)
        self.keep(CaughtMail(datetime.now(UTC), envelope.mail_from or "", recipients, content))
        return "250 2.0.0 caught"

    async def _serve(self, listening: socket.socket, stop: asyncio.Event) -> None:
        connections: set[asyncio.BaseTransport] = set()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Dialogue(self, connections, loop), sock=listening)
        try:
            await stop.wait()
        finally:
            server.close()
            for transport in tuple(connections):
                transport.close()


class _Dialogue(SMTP):
    """One connection, known to the server so that the server can end it."""

    def __init__(
        self, catcher: MailCatcher, connections: set[asyncio.BaseTransport], loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(catcher, data_size_limit=LARGEST_MAIL, hostname=_NAME, ident="Waybill mail catcher", loop=loop)
        self._connections = connections

    def connection_made(self, transport: Any) -> None:
        self._connections.add(transport)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self.transport is not None:
            self._connections.discard(self.transport)
        super().connection_lost(error)
