"""What the bounce listener says: the few words of SMTP and LMTP that a mail to one of our return paths needs.

Written by hand: what a library adds (logins, other recipients, help) is what must not be here, and it keeps all of
what anybody sends.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from services.email.wire import Bounds, Wire, WireError

NAME = "bounces.waybill"
_MAIL = re.compile(r"FROM: ?<([^<>]*)>((?: +[^ ]+)*) *", re.IGNORECASE)
_RCPT = re.compile(r"TO: ?<([^<> ]+)> *", re.IGNORECASE)
_PARAMETER = re.compile(r"SIZE=(\d{1,20})|BODY=(?:7BIT|8BITMIME)|SMTPUTF8", re.IGNORECASE)

Step = Callable[[str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Patience:
    """How much of one connection is put up with. Who has named no return path of ours is a stranger."""

    stranger_seconds: float = 30.0
    total_seconds: float = 300.0
    mails: int = 100
    commands: int = 40
    """Since the last mail."""
    mistakes: int = 10
    bounds: Bounds = field(default_factory=Bounds)


class Reception(Protocol):
    """Who decides about recipients and takes mails."""

    def refusal(self, address: str) -> str | None:
        """What is answered to somebody who names this recipient; None: it may have a mail."""

    async def take(self, address: str, raw: bytes) -> str:
        """The answer to a mail for ``address``."""


class Dialogue:
    """One connection, from the greeting to the goodbye."""

    def __init__(self, wire: Wire, reception: Reception, patience: Patience, *, lmtp: bool) -> None:
        self._wire = wire
        self._reception = reception
        self._patience = patience
        self._protocol = "LMTP" if lmtp else "ESMTP"
        greetings: Mapping[str, Step] = {"LHLO": self._ehlo} if lmtp else {"EHLO": self._ehlo, "HELO": self._helo}
        self._steps: Mapping[str, Step] = {
            **greetings,
            "MAIL": self._mail,
            "RCPT": self._rcpt,
            "DATA": self._data,
            "RSET": self._rset,
            "NOOP": self._noop,
            "VRFY": self._vrfy,
            "QUIT": self._quit,
        }
        self._is_greeted = False
        self._sender: str | None = None
        self._recipient: str | None = None
        self._mails = self._commands = self._mistakes = 0
        self._began = 0.0
        self._limit = asyncio.timeout(None)

    async def run(self) -> None:
        """Talk until one side says goodbye. Raises TimeoutError when it takes too long, ConnectionError at its end."""
        self._began = asyncio.get_running_loop().time()
        self._limit = asyncio.timeout_at(self._began + self._patience.stranger_seconds)
        async with self._limit:
            answer = f"220 {NAME} {self._protocol} Waybill"
            try:
                while not answer.startswith(("221", "421")):
                    await self._wire.say(answer)
                    answer = await self._answer(await self._wire.read_line())
            except WireError as exc:
                answer = exc.answer
            await self._wire.say(answer)

    async def _answer(self, line: str) -> str:
        self._commands += 1
        if self._commands > self._patience.commands or self._mistakes > self._patience.mistakes:
            return "421 4.7.0 too much talk for no mail"
        verb, _, rest = line.partition(" ")
        step = self._steps.get(verb.upper())
        answer = "500 5.5.1 this is not understood here" if step is None else await step(rest.strip())
        self._mistakes += answer.startswith("5")
        return answer

    async def _ehlo(self, name: str) -> str:
        offers = (f"SIZE {self._patience.bounds.largest}", "8BITMIME", "SMTPUTF8")
        if not name:
            return await self._helo(name)
        await self._helo(name)
        return "\n".join((f"250-{NAME}", *(f"250-{offer}" for offer in offers), "250 ENHANCEDSTATUSCODES"))

    async def _helo(self, name: str) -> str:
        if not name:
            return "501 5.5.4 say who you are"
        self._is_greeted = True
        self._forget()
        return f"250 {NAME}"

    async def _mail(self, rest: str) -> str:
        found = _MAIL.fullmatch(rest)
        if not self._is_greeted or self._sender is not None:
            return "503 5.5.1 not now"
        if found is None:
            return "501 5.5.4 MAIL FROM:<address>"
        if self._mails >= self._patience.mails:
            return "421 4.7.0 enough for one connection"
        for word in found[2].split():
            parameter = _PARAMETER.fullmatch(word)
            if parameter is None:
                return "555 5.5.4 this parameter is not known"
            if int(parameter[1] or 0) > self._patience.bounds.largest:
                return "552 5.3.4 this mail is too large"
        self._sender = found[1]
        return "250 2.1.0 ok"

    async def _rcpt(self, rest: str) -> str:
        found = _RCPT.fullmatch(rest)
        if self._sender is None:
            return "503 5.5.1 MAIL comes first"
        if found is None:
            return "501 5.5.4 RCPT TO:<address>"
        refusal = self._reception.refusal(found[1])
        if refusal is not None:
            return refusal
        if self._recipient is not None:
            # Each return path is one job's, and LMTP wants an answer for each recipient.
            return "452 4.5.3 one recipient a mail"
        self._recipient = found[1]
        self._limit.reschedule(self._began + self._patience.total_seconds)
        return "250 2.1.5 ok"

    async def _data(self, rest: str) -> str:
        if self._recipient is None or rest:
            return "503 5.5.1 RCPT comes first"
        await self._wire.say("354 end with a dot on a line of its own")
        # As whoever delivers a mail in the end does: that it is from nobody tells mail systems from people.
        path = f"Return-Path: <{self._sender}>\r\n".encode()
        answer = await self._reception.take(self._recipient, path + await self._wire.read_mail())
        self._mails += 1
        self._commands = 0
        self._forget()
        return answer

    async def _rset(self, _rest: str) -> str:
        self._forget()
        return "250 2.0.0 ok"

    async def _noop(self, _rest: str) -> str:
        return "250 2.0.0 ok"

    async def _vrfy(self, _rest: str) -> str:
        return "252 2.5.2 send a mail and see"

    async def _quit(self, _rest: str) -> str:
        return "221 2.0.0 goodbye"

    def _forget(self) -> None:
        self._sender = self._recipient = None
