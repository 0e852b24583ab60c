"""Mail to a relay over SMTP: one attempt in, one verdict out, whatever happens."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta

import aiosmtplib

from services.email.addresses import BadAddress
from services.email.connection import Connection, Mismatch, Refused, Steps
from services.email.message import Message, build_message
from services.email.pool import LONGEST_IDLE, MOST_MAILS, Pool
from services.email.replies import Stage, judge
from services.email.returnpath import ReturnPaths
from services.email.unsubscribe import Links
from shared.content import EmailContent
from shared.delivery.provider import Parcel
from shared.relay import Relay
from shared.verdict import NoVerdict, Rejected, SenderBlocked, Verdict

BEFORE_THE_DOT = 0.6
"""The share of an attempt within which the mail must be handed over: relays think after the final dot, not before."""
OF_A_KEPT_ONE = 0.2
"""The share within which a kept connection must answer MAIL before a fresh one is opened instead."""
OF_THE_ATTEMPT = 0.95
"""The share that we use: the verdict is ours to give before the caller cuts the attempt off."""


class SmtpProvider:
    """Sends through one relay. ``attempt_timeout`` is the caller's hard limit; ours is a little shorter."""

    name = "smtp"

    def __init__(
        self,
        relay: Relay,
        *,
        pool_size: int,
        attempt_timeout: timedelta,
        most_mails: int = MOST_MAILS,
        longest_idle: timedelta = LONGEST_IDLE,
        tls: ssl.SSLContext | None = None,
        return_paths: ReturnPaths | None = None,
        links: Links | None = None,
    ) -> None:
        self._relay = relay
        self._pool = Pool(pool_size, most_mails, longest_idle)
        self._seconds = attempt_timeout.total_seconds()
        self._return_paths = return_paths
        self._links = links
        self._tls = tls or ssl.create_default_context()

    async def send(self, parcel: Parcel, began: float | None = None) -> Verdict:
        """What became of one attempt to hand the mail to the relay; ``began`` by the loop's clock, if before now."""
        sender = parcel.tenant.tenant.senders.email
        if not isinstance(parcel.content, EmailContent):
            return Rejected(error="the content is not that of a mail")
        if sender is None:
            return SenderBlocked("sender", code="no_sender", error="the tenant has no email sender")
        now = datetime.now(UTC)
        try:
            message = build_message(
                parcel.content,
                sender,
                parcel.stable_id,
                now,
                return_path=self._return_path(parcel, now),
                unsubscribe=None if self._links is None else self._links.link_for(parcel),
            )
        except BadAddress as exc:
            return _unaddressable(exc)
        if began is None:
            began = asyncio.get_running_loop().time()
        return await self._send(message, Steps(parcel.progress), began)

    async def close(self) -> None:
        """Close every kept connection."""
        self._pool.close()

    def retire(self) -> None:
        """Close every kept connection now, and those in use once their mail is done."""
        self._pool.retire()

    def _return_path(self, parcel: Parcel, now: datetime) -> str | None:
        return None if self._return_paths is None else self._return_paths.address_for(parcel.stable_id, now)

    async def _send(self, message: Message, steps: Steps, began: float) -> Verdict:
        try:
            async with asyncio.timeout_at(began + self._seconds * OF_THE_ATTEMPT):
                return await self._send_within(message, steps, began + self._seconds * BEFORE_THE_DOT)
        except Refused as exc:
            return judge(steps.stage, exc.code, exc.text)
        except Mismatch as exc:
            return SenderBlocked("relay", code="setup", error=f"at {steps.stage}: {exc}")
        except TimeoutError:
            error = f"at {steps.stage}: no answer in time"
            return NoVerdict(steps.progress.handed_over, code="timeout", error=error)
        except (OSError, aiosmtplib.SMTPException, ValueError) as exc:
            return _broken(steps, exc)

    async def _send_within(self, message: Message, steps: Steps, handover_by: float) -> Verdict:
        async with self._pool.slot(handover_by):
            async with asyncio.timeout_at(handover_by):
                connection = await self._begin(message, steps)
            with self._pool.giving_back(connection):
                async with asyncio.timeout_at(handover_by):
                    await connection.hand_over(message, steps)
                response = await connection.finish(steps)
        return judge(steps.stage, response.code, response.message)

    async def _begin(self, message: Message, steps: Steps) -> Connection:
        """A connection on which MAIL was answered well."""
        kept = self._pool.take()
        if kept is not None and await self._begin_on_kept(kept, message, steps):
            return kept
        connection = await Connection.open(self._relay, self._tls, steps)
        try:
            await connection.begin(message, steps)
        except Refused:
            connection.quit()
            raise
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _begin_on_kept(self, kept: Connection, message: Message, steps: Steps) -> bool:
        """Whether MAIL was answered well; if not, ``kept`` is closed, and nothing is lost by it."""
        try:
            async with asyncio.timeout(self._seconds * OF_A_KEPT_ONE):
                await kept.begin(message, steps)
        except Refused:
            # It may mean this connection alone, which has had its share of mails; a fresh one is told otherwise.
            kept.quit()
        except (OSError, aiosmtplib.SMTPException):
            kept.abort()
        except BaseException:
            kept.abort()
            raise
        else:
            return True
        return False


def _unaddressable(exc: BadAddress) -> Verdict:
    if exc.place == "from":
        return SenderBlocked("sender", code="bad_address", error=str(exc))
    return Rejected(code="bad_address", error=str(exc))


def _broken(steps: Steps, exc: Exception) -> Verdict:
    """The verdict on a connection that was lost, or never came about."""
    tls = _tls_problem(exc)
    if tls is not None and steps.stage in (Stage.CONNECT, Stage.HELO):
        # A certificate that does not verify is a set-up to be mended by people, and seen by them.
        return SenderBlocked("relay", code="tls", error=f"at {steps.stage}: {tls}")
    code = "unreachable" if steps.stage is Stage.CONNECT else "disconnected"
    error = str(exc) or type(exc).__name__
    if isinstance(exc, aiosmtplib.SMTPResponseException):
        code, error = "malformed_reply", " ".join(exc.message.split())
    return NoVerdict(steps.progress.handed_over, code=code, error=f"at {steps.stage}: {error}")


def _tls_problem(exc: BaseException) -> str | None:
    """What is wrong with the encryption, when that is what ``exc`` comes from; a mere drop is not."""
    cause: BaseException | None = exc
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the certificate does not verify: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return f"no common TLS: {cause.reason or 'unknown'}"
        cause = cause.__cause__
    return None
