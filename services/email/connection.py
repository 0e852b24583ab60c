"""One SMTP connection, step by step, so that it is always known how far a mail has come."""

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import cast

import aiosmtplib
from aiosmtplib.protocol import SMTPProtocol

from services.email.message import Message
from services.email.replies import Stage
from shared.delivery.provider import Progress
from shared.errors import WaybillError
from shared.relay import Relay, Security

_DOT_FIRST = re.compile(rb"(?m)^\.")
_FINAL_DOT = b".\r\n"
_NO_SUCH_MECHANISM = (502, 504)
CLOSING = 421
"""The code with which a relay says that it hangs up."""
# A line of a reply has 512 bytes (RFC 5321 4.5.3.1.5). Not every relay knows, and a mail that was taken at great length
# must not be sent again: only the whole reply is bounded, as the library does it, to 32 KiB.
aiosmtplib.protocol.MAX_LINE_LENGTH = aiosmtplib.protocol.MAX_RESPONSE_LENGTH


class Refused(WaybillError):
    """The relay answered something other than what would have let us go on."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text


class Mismatch(WaybillError):
    """The relay does not offer what its URL asks for: encryption, or a login that we know."""


@dataclass(slots=True)
class Steps:
    """Where an attempt is: the stage under way, and whether the mail is out of our hands."""

    progress: Progress
    stage: Stage = Stage.CONNECT


class Connection:
    """A connection that has been greeted, encrypted and logged in as the relay's URL says.

    ``mail_count`` counts the mails begun on it. Methods raise Refused for an answer, and OSError or
    aiosmtplib's errors for a connection that is lost.
    """

    def __init__(self, client: aiosmtplib.SMTP) -> None:
        self._client = client
        self._needs_reset = False
        self.mail_count = 0

    @classmethod
    async def open(cls, relay: Relay, tls: ssl.SSLContext, steps: Steps) -> "Connection":
        """A fresh connection to ``relay``."""
        steps.stage = Stage.CONNECT
        client = aiosmtplib.SMTP(
            hostname=relay.host,
            port=relay.port,
            timeout=None,
            use_tls=relay.security is Security.IMPLICIT,
            start_tls=False,
            tls_context=tls,
            # Given only so that the library does not ask the resolver for it at every connection.
            local_hostname="localhost",
        )
        connection = cls(client)
        try:
            await _answered(client.connect())
            steps.stage = Stage.HELO
            await connection._greet()
            if relay.security is Security.STARTTLS:
                await connection._encrypt(tls)
            if relay.username is not None:
                steps.stage = Stage.AUTH
                await connection._log_in(relay.username, relay.password)
        except BaseException:
            connection.abort()
            raise
        return connection

    @property
    def is_alive(self) -> bool:
        """Whether it is open as far as we can see without asking the relay."""
        return self._client.is_connected

    @property
    def _reports(self) -> bool:
        """Whether the relay reports failures the way it is asked to (RFC 3461)."""
        return self._client.supports_extension("dsn")

    async def begin(self, message: Message, steps: Steps) -> None:
        """Say who the mail is from."""
        steps.stage = Stage.MAIL
        self.mail_count += 1
        if self._needs_reset and (await self._client.execute_command(b"RSET")).code != 250:
            raise aiosmtplib.SMTPServerDisconnected("the relay does not reset")
        size = len(message.content)
        if not self._accepts_size(size):
            raise Refused(552, "5.3.4 the mail is larger than the relay says it takes")
        self._needs_reset = True
        options = [f"SIZE={size}".encode()] if self._client.supports_extension("size") else []
        if self._reports:
            # What comes back then names the job, and need not hold the whole mail once more.
            options += [b"RET=HDRS", f"ENVID={message.envelope_id}".encode("ascii")]
        await self._command(b"MAIL", f"FROM:<{message.envelope_from}>".encode("ascii"), *options)

    async def hand_over(self, message: Message, steps: Steps) -> None:
        """Say whom it is for and send all of it but the final dot."""
        steps.stage = Stage.RCPT
        options = [b"NOTIFY=FAILURE"] if self._reports else []
        await self._command(b"RCPT", f"TO:<{message.envelope_to}>".encode("ascii"), *options)
        steps.stage = Stage.DATA
        await self._command(b"DATA", expected=354)
        await self._upload(_DOT_FIRST.sub(b"..", message.content))

    async def finish(self, steps: Steps) -> aiosmtplib.SMTPResponse:
        """Send the final dot; the relay's answer to it, whatever it is."""
        protocol = self._protocol()
        steps.stage = Stage.EOD
        # Said before the dot is written: once it may have left us, nobody can take it back.
        steps.progress.handed_over = True
        protocol.write(_FINAL_DOT)
        response = await protocol.read_response()
        self._needs_reset = not 200 <= response.code <= 299
        if response.code == CLOSING:
            self._client.close()
        return response

    def quit(self) -> None:
        """Say goodbye and close, without waiting for an answer."""
        if self._client.is_connected:
            self._protocol().write(b"QUIT\r\n")
        self._client.close()

    def abort(self) -> None:
        """Close at once and throw away what has not been sent."""
        transport = self._transport()
        if transport is not None:
            transport.abort()
        self._client.close()

    def _accepts_size(self, size: int) -> bool:
        limit = self._client.esmtp_extensions.get("size", "")
        return not limit.isdigit() or int(limit) == 0 or size <= int(limit)

    async def _greet(self) -> None:
        name = _own_name(self._client)
        try:
            await _answered(self._client.ehlo(hostname=name))
        except Refused as refused:
            if refused.code < 500 or not self._client.is_connected:
                raise
            await _answered(self._client.helo(hostname=name))

    async def _encrypt(self, tls: ssl.SSLContext) -> None:
        if not self._client.supports_extension("starttls"):
            raise Mismatch("the relay does not offer STARTTLS")
        await _answered(self._client.starttls(tls_context=tls))
        # What was said before the encryption may have been anybody's.
        await self._greet()

    async def _log_in(self, username: str, password: str) -> None:
        offered = self._client.server_auth_methods
        client = self._client
        known = {"plain": client.auth_plain, "login": client.auth_login, "cram-md5": client.auth_crammd5}
        ways = [way for name, way in known.items() if name in offered]
        if not ways:
            raise Mismatch("the relay offers no login that we know (PLAIN, LOGIN, CRAM-MD5)")
        for way in ways:
            try:
                await _answered(way(username, password))
            except Refused as refused:
                # Only where the way itself is unknown is another one tried: wrong passwords lock accounts.
                if refused.code not in _NO_SUCH_MECHANISM or way is ways[-1]:
                    raise
            else:
                return

    async def _upload(self, content: bytes) -> None:
        """Give everything to the network, listening meanwhile: a relay may refuse in the middle."""
        protocol, transport = self._protocol(), self._transport()
        if transport is None:
            raise aiosmtplib.SMTPServerDisconnected("Connection lost")
        transport.set_write_buffer_limits(high=0)
        protocol.write(content)
        if transport.get_write_buffer_size() == 0:
            return
        answer = asyncio.ensure_future(protocol.read_response())
        drained = asyncio.ensure_future(protocol._drain_helper())  # noqa: SLF001 - there is no public way to wait for the buffer while reading
        try:
            await asyncio.wait({answer, drained}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                early = answer.result()
                raise Refused(early.code, early.message)
            drained.result()
        finally:
            answer.cancel()
            drained.cancel()
            await asyncio.wait({answer, drained})

    async def _command(self, *words: bytes, expected: int = 250) -> None:
        response = await self._client.execute_command(*words, timeout=None)
        if response.code != expected and not 250 == expected <= response.code <= 259:
            raise Refused(response.code, response.message)

    def _transport(self) -> asyncio.WriteTransport | None:
        # Not every loop's transports inherit from asyncio's class; aiosmtplib opens none that cannot be written to.
        return cast("asyncio.WriteTransport | None", self._client.transport)

    def _protocol(self) -> SMTPProtocol:
        if self._client.protocol is None:
            raise aiosmtplib.SMTPServerDisconnected("Connection lost")
        return self._client.protocol


async def _answered(step: Awaitable[aiosmtplib.SMTPResponse]) -> None:
    try:
        await step
    except aiosmtplib.SMTPResponseException as exc:
        if exc.code < 0:
            # The library's word for what is no reply of SMTP at all.
            raise
        raise Refused(exc.code, exc.message) from exc


def _own_name(client: aiosmtplib.SMTP) -> str:
    """What to say in EHLO: this machine's full name, or else the address it speaks from."""
    name = socket.gethostname()
    if "." in name and re.fullmatch(r"[A-Za-z0-9.-]+", name, re.ASCII):
        return name
    address = str(client.get_transport_info("sockname")[0])
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"
