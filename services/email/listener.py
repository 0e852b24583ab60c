"""Where bounces and complaints arrive: SMTP or LMTP, for return paths of ours and for nothing else.

It never answers a mail with a mail, relays nothing, and believes nobody: a recipient that is no return path of ours
is refused before anything is read.
"""

import asyncio
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, Envelope, Session

from services.email.intake import Arrival
from services.email.parts import MOST_BYTES
from services.email.receiving import Receiving
from services.email.returnpath import ReturnPaths, Validity
from shared.errors import StoreUnavailable
from shared.lifecycle import Part
from shared.logs import get_logger
from shared.store.receipts import ReceiptSource
from shared.web.server import CannotListen

log = get_logger()

LARGEST_MAIL = 20 * 1024 * 1024
MOST_CONNECTIONS = 50
SILENCE_SECONDS = 60.0
_NAME = "bounces.waybill"


@dataclass(frozen=True)
class ListenerPart(Part):
    """A part that takes bounces on ``port`` (the one it really got where 0 was asked for)."""

    port: int


class Listener:
    """One connection after the other hands its mails to ``receiving``."""

    def __init__(self, receiving: Receiving, paths: ReturnPaths, protocol: str) -> None:
        """``protocol`` is ``smtp`` or ``lmtp``."""
        self._receiving = receiving
        self._paths = paths
        self._protocol: type[SMTP] = LMTP if protocol == "lmtp" else SMTP
        self._open: set[asyncio.BaseTransport] = set()

    def part(self, host: str, port: int) -> ListenerPart:
        """A part that listens on ``host``:``port``. The port is taken at once (CannotListen)."""
        bound = _bind(host, port)

        async def run(stop: asyncio.Event) -> None:
            # The loop closes what it is given; the port stays ours in case the part has to start again.
            await self._serve(bound.dup(), stop)
            bound.close()

        return ListenerPart("bounces", run, int(bound.getsockname()[1]))

    async def handle_EHLO(  # noqa: N802 - aiosmtpd calls it by this name
        self, _server: SMTP, session: Session, _envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        """Greet; one connection too many is sent away before it costs anything."""
        session.host_name = hostname
        return ["421 4.3.2 too many connections"] if len(self._open) > MOST_CONNECTIONS else responses

    async def handle_RCPT(  # noqa: N802 - aiosmtpd calls it by this name
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        """Take return paths of ours that are still good."""
        returned = self._paths.read(address, datetime.now(UTC))
        if returned is None or returned.validity is not Validity.GOOD:
            log.info("receipts.refused", validity="none" if returned is None else returned.validity)
            return "550 5.1.1 nobody here has this address"
        if envelope.rcpt_tos:
            # Each return path is one job's; and LMTP wants an answer for each recipient, which the library has not.
            return "452 4.5.3 one recipient a mail"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 ok"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd calls it by this name
        """Keep what it reports; only when that is impossible the other side must come again."""
        content = envelope.content if isinstance(envelope.content, bytes) else b""
        try:
            for address in envelope.rcpt_tos:
                await self._receiving.take(Arrival(content[:MOST_BYTES], ReceiptSource.LISTENER, (str(address),)))
        except StoreUnavailable:
            return "451 4.3.0 cannot be kept just now, try again later"
        return "250 2.0.0 taken"

    async def _serve(self, listening: socket.socket, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: self._dialogue(loop), sock=listening)
        try:
            await stop.wait()
        finally:
            server.close()
            for transport in tuple(self._open):
                transport.close()

    def _dialogue(self, loop: asyncio.AbstractEventLoop) -> SMTP:
        connections = self._open

        class Dialogue(self._protocol):  # type: ignore[name-defined,misc]  # one of two classes of the library's
            def connection_made(self, transport: Any) -> None:
                connections.add(transport)
                super().connection_made(transport)

            def connection_lost(self, error: Exception | None) -> None:
                if self.transport is not None:
                    connections.discard(self.transport)
                super().connection_lost(error)

        return Dialogue(
            self,
            data_size_limit=LARGEST_MAIL,
            hostname=_NAME,
            ident="Waybill",
            loop=loop,
            timeout=SILENCE_SECONDS,
            enable_SMTPUTF8=True,
        )


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as exc:
        raise CannotListen(host, port, exc) from exc
