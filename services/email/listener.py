"""Where bounces and complaints arrive: SMTP or LMTP, for return paths of ours and for nothing else.

It never answers a mail with a mail, relays nothing, and believes nobody: a recipient that is no return path of ours
is refused before anything is read. Anybody may connect to it, so that all it spends is bounded: connections, the time
and the memory of each, and the mails that one return path may get.
"""

import asyncio
import ipaddress
import socket
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

from services.email.allowance import Allowance
from services.email.dialogue import Dialogue, Patience
from services.email.intake import Arrival
from services.email.receiving import Receiving
from services.email.returnpath import ReturnPaths, Validity
from services.email.wire import CHUNK, Wire
from shared.errors import StoreUnavailable
from shared.lifecycle import Part
from shared.logs import get_logger
from shared.metrics import bounce_connections
from shared.store.receipts import ReceiptSource
from shared.web.server import take_port

log = get_logger()

BACKLOG = 100
GOODBYE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How many connections there may be, in all and from one address, and what is put up with in each of them.

    All connections together keep at most ``connections`` times the 256 KiB of a mail.
    """

    connections: int = 50
    of_one_address: int = 20
    """As many as common mail servers open to one other server."""
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True)
class ListenerPart(Part):
    """A part that takes bounces on ``port`` (the one it really got where 0 was asked for)."""

    port: int


class Listener:
    """Takes mails for ``paths``, and hands them to ``receiving``."""

    def __init__(self, receiving: Receiving, paths: ReturnPaths, protocol: str, limits: Limits | None = None) -> None:
        """``protocol`` is ``smtp`` or ``lmtp``."""
        self._reception = ReturnPathReception(receiving, paths)
        self._lmtp = protocol == "lmtp"
        self._limits = limits or Limits()
        self._open: dict[asyncio.Task[None], str] = {}

    def part(self, host: str, port: int) -> ListenerPart:
        """A part that listens on ``host``:``port``. The port is taken at once (CannotListen)."""
        bound = take_port(host, port)

        async def run(stop: asyncio.Event) -> None:
            # The loop closes what it is given; the port stays ours in case the part has to start again.
            await self._serve(bound.dup(), stop)
            bound.close()

        return ListenerPart("bounces", run, int(bound.getsockname()[1]))

    async def _serve(self, listening: socket.socket, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._meet, sock=listening, limit=CHUNK, backlog=BACKLOG)
        try:
            await stop.wait()
        finally:
            server.close()
            for conversation in tuple(self._open):
                conversation.cancel()
            if self._open:
                await asyncio.wait(tuple(self._open))

    def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin a conversation, or send whoever came away at once: nothing is read from who is too many."""
        address = _network(writer.get_extra_info("peername"))
        if (
            len(self._open) >= self._limits.connections
            or Counter(self._open.values())[address] >= self._limits.of_one_address
        ):
            bounce_connections.labels("turned_away").inc()
            _hang_up(writer, "421 4.3.2 too many connections")
            return
        conversation = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._open[conversation] = address
        conversation.add_done_callback(self._note_end)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer, self._limits.patience.bounds)
        result, last_words = "ended", ""
        try:
            await Dialogue(wire, self._reception, self._limits.patience, lmtp=self._lmtp).run()
        except TimeoutError:
            result, last_words = "too_slow", "421 4.4.2 too slow"
        except OSError:
            result = "cut_off"
        finally:
            bounce_connections.labels(result).inc()
            _hang_up(writer, last_words)

    def _note_end(self, conversation: asyncio.Task[None]) -> None:
        del self._open[conversation]
        if not conversation.cancelled() and (failure := conversation.exception()) is not None:
            log.error("bounces.conversation_failed", exc_info=failure)


class ReturnPathReception:
    """Takes mails for return paths of ours that are still good, and not too many for one of them."""

    def __init__(self, receiving: Receiving, paths: ReturnPaths) -> None:
        self._receiving = receiving
        self._paths = paths
        self._allowance = Allowance()

    def refusal(self, address: str) -> str | None:
        """Why no mail for ``address`` is taken; None when one is."""
        returned = self._paths.read(address, datetime.now(UTC))
        if returned is None or returned.job is None:
            log.debug("receipts.refused", validity=Validity.FORGED if returned is None else returned.validity)
            return "550 5.1.1 nobody here has this address"
        if not self._allowance.spend(returned.job):
            return "552 5.2.2 enough came back about this mail"
        return None

    async def take(self, address: str, raw: bytes) -> str:
        """Keep what ``raw`` reports; only when that is impossible the other side must come again."""
        try:
            await self._receiving.take(Arrival(raw, ReceiptSource.LISTENER, (address,)))
        except StoreUnavailable:
            return "451 4.3.0 cannot be kept just now, try again later"
        return "250 2.0.0 taken"


def _hang_up(writer: asyncio.StreamWriter, last_words: str) -> None:
    """Say ``last_words`` and close, within a second also where nobody reads them."""
    if last_words:
        writer.write(last_words.encode() + b"\r\n")
    writer.close()
    # Closing waits for a peer that reads nothing, for ever.
    asyncio.get_running_loop().call_later(GOODBYE_SECONDS, writer.transport.abort)


def _network(peer: object) -> str:
    """Whose connection it is: an IPv4 address, or the /64 that one owner of IPv6 has."""
    try:
        address = ipaddress.ip_address(str(peer[0]) if isinstance(peer, tuple) else "")
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address.packed[:8] + bytes(8), 64)))
