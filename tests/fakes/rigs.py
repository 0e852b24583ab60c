"""Each provider with its peer on the wire, and the same handles on all of them: for the contract of providers."""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum, auto

from services.email.provider import EmailProvider
from services.email.relays import OneRelay
from services.push.accounts import OneAccount
from services.push.fcm import FcmSender, load
from services.push.provider import PushProvider
from services.push.roads import Roads
from services.push.webpush import WebPushSender
from shared.channel import Channel
from shared.content import PushContent
from shared.delivery.provider import Folded, Parcel, Provider
from shared.endpoint import EndpointRules, Pair
from shared.ids import EventId, JobId, ScopeId, new_event_id
from shared.ports import free_ports
from shared.relay import parse_relay
from shared.serviceaccount import parse_service_account
from shared.store.database import Database
from shared.verdict import NoVerdict, Verdict
from tests.factories import scoped_tenant
from tests.fakes import fcm, smtp_script, webpush
from tests.fakes.fcm import Act, FcmPeer, fcm_peer
from tests.fakes.parcels import email_parcel
from tests.fakes.pushing import Pushing
from tests.fakes.smtp import SmtpSink
from tests.fakes.webpush import WebPushPeer, webpush_peer

CONNECTIONS = 4
ATTEMPT = timedelta(seconds=6)
"""What a silent peer costs a test, and what a busy machine has for one message."""
CONTENT = PushContent("Linear algebra is booked", "Tue 1 Dec, 15:00 with Ada", "en")


class Answer(StrEnum):
    """What a peer does with every message from now on, in words that fit all of them."""

    TAKES = auto()
    REFUSES = auto()
    IS_DEAD = auto()
    LATER = auto()
    IS_DOWN = auto()
    BLOCKS_US = auto()
    SAYS_GARBAGE = auto()
    HANGS_UP = auto()
    IS_SILENT = auto()


_OF_RELAYS: dict[Answer, tuple[tuple[str, smtp_script.Act], ...]] = {
    Answer.TAKES: (),
    Answer.REFUSES: (("eod", smtp_script.Reply(550, "5.6.0 malformed message")),),
    Answer.IS_DEAD: (("rcpt", smtp_script.Reply(550, "5.1.1 no such user")),),
    Answer.LATER: (("rcpt", smtp_script.Reply(450, "4.2.1 mailbox busy, try again later")),),
    Answer.IS_DOWN: (
        ("connect", smtp_script.Reply(421, "4.3.0 closing")),
        ("mail", smtp_script.Reply(421, "4.3.0")),
    ),
    Answer.BLOCKS_US: (("mail", smtp_script.Reply(550, "5.7.1 your IP address is blocked")),),
    Answer.SAYS_GARBAGE: (("eod", smtp_script.Raw(b"\x00\xff nonsense\r\n")),),
    Answer.HANGS_UP: (("eod", smtp_script.Drop()),),
    Answer.IS_SILENT: (("eod", smtp_script.Stall()),),
}
_OF_FIREBASE: dict[Answer, Act | None] = {
    Answer.TAKES: None,
    Answer.REFUSES: fcm.Refuse(400, "INVALID_ARGUMENT", "bad data", "INVALID_ARGUMENT", at_field="message.data"),
    Answer.IS_DEAD: fcm.UNREGISTERED,
    Answer.LATER: fcm.too_many("7"),
    Answer.IS_DOWN: fcm.UNAVAILABLE,
    Answer.BLOCKS_US: fcm.OTHER_PROJECTS_TOKEN,
    Answer.SAYS_GARBAGE: fcm.Say(200, b"\x00\xff nonsense"),
    Answer.HANGS_UP: fcm.Drop(),
    Answer.IS_SILENT: fcm.Hang(),
}
_OF_PUSH_SERVICES: dict[Answer, Act | None] = {
    Answer.TAKES: None,
    Answer.REFUSES: fcm.Say(400, b'{"reason":"BadWebPushTopic"}'),
    Answer.IS_DEAD: webpush.GONE,
    Answer.LATER: webpush.THROTTLED,
    Answer.IS_DOWN: fcm.Say(503),
    Answer.BLOCKS_US: webpush.WRONG_KEY,
    Answer.SAYS_GARBAGE: fcm.Say(200, b"<html>nonsense"),
    Answer.HANGS_UP: fcm.Drop(),
    Answer.IS_SILENT: fcm.Hang(),
}


class Rig(ABC):
    """A provider and its peer."""

    provider: Provider

    @abstractmethod
    def answers(self, answer: Answer) -> None:
        """Have the peer do this from now on."""

    @property
    @abstractmethod
    def taken_count(self) -> int:
        """How many messages it has taken to the end and said so."""

    @abstractmethod
    def parcel(self) -> Parcel:
        """One more job for the same recipient."""

    @abstractmethod
    async def to_nobody(self) -> tuple[Verdict, Parcel]:
        """What becomes of a job when there is nobody at the other end."""

    async def attempt(self, parcel: Parcel, provider: Provider | None = None) -> Verdict:
        """What the engine would make of one attempt: it cuts off what takes too long, and asks how far it came."""
        try:
            async with asyncio.timeout(ATTEMPT.total_seconds()):
                outcome = await (provider or self.provider).send(parcel)
        except (TimeoutError, asyncio.CancelledError):
            return NoVerdict(handed_over=parcel.progress.handed_over, code="cut_off")
        if isinstance(outcome, Folded):
            (result,) = outcome.results
            return result.verdict
        assert isinstance(outcome, Verdict), outcome
        return outcome


class EmailRig(Rig):
    """A relay that takes mail."""

    def __init__(self, sink: SmtpSink) -> None:
        self.sink = sink
        self.provider = _email(sink.port)

    def answers(self, answer: Answer) -> None:
        """Have the relay do this."""
        self.sink.script.forget()
        for stage, act in _OF_RELAYS[answer]:
            self.sink.script.always(stage, act)

    @property
    def taken_count(self) -> int:
        """Mails taken to the final dot."""
        return len(self.sink.mails)

    def parcel(self) -> Parcel:
        """A mail to bob."""
        return email_parcel()

    async def to_nobody(self) -> tuple[Verdict, Parcel]:
        """A relay that takes no connection."""
        return await _once(self, _email(free_ports(1)[0]))


class FcmRig(Rig):
    """One phone behind a Firebase."""

    def __init__(self, pushing: Pushing) -> None:
        self.peer: FcmPeer = pushing.peer
        self._parcels = push_parcels()
        self._pushing = pushing
        self.provider = _push(pushing, pushing.peer.base_url)

    def answers(self, answer: Answer) -> None:
        """Have Firebase do this."""
        self.peer.always("phone", _OF_FIREBASE[answer])

    @property
    def taken_count(self) -> int:
        """Messages the phone got."""
        return len(self.peer.rung("phone"))

    def parcel(self) -> Parcel:
        """A push to bob."""
        return self._parcels("bob")

    async def to_nobody(self) -> tuple[Verdict, Parcel]:
        """A Firebase that takes no connection."""
        return await _once(self, _push(self._pushing, f"http://127.0.0.1:{free_ports(1)[0]}"))


class WebPushRig(Rig):
    """One browser behind its push service."""

    def __init__(self, pushing: Pushing) -> None:
        self.peer: WebPushPeer = pushing.web
        self._parcels = push_parcels()
        self._pushing = pushing
        self.provider = _push(pushing, pushing.peer.base_url)

    def answers(self, answer: Answer) -> None:
        """Have the push service do this."""
        self.peer.always("browser", _OF_PUSH_SERVICES[answer])

    @property
    def taken_count(self) -> int:
        """Messages the browser got."""
        return len(self.peer.browsers["browser"].shown)

    def parcel(self) -> Parcel:
        """A push to bob."""
        return self._parcels("bob")

    async def to_nobody(self) -> tuple[Verdict, Parcel]:
        """A browser whose push service takes no connection."""
        (port,) = free_ports(1)
        browser = replace(self.peer.browsers["browser"], endpoint=f"http://127.0.0.1:{port}/push/browser")
        self._pushing.web.browsers["browser"] = browser
        await self._pushing.browser("browser", recipient_id="nobody")
        self._pushing.web.rules = EndpointRules(trusted=frozenset({Pair("127.0.0.1", port)}))
        provider = _push(self._pushing, self._pushing.peer.base_url)
        parcel = self._parcels("nobody")
        verdict = await self.attempt(parcel, provider)
        await provider.close()
        return verdict, parcel


@asynccontextmanager
async def email_rig(_database: Database) -> AsyncIterator[Rig]:
    """The email provider and a relay."""
    sink = await SmtpSink().start()
    rig = EmailRig(sink)
    try:
        yield rig
    finally:
        await rig.provider.close()
        await sink.close()


@asynccontextmanager
async def fcm_rig(database: Database) -> AsyncIterator[Rig]:
    """The push provider, Firebase and a phone."""
    await asyncio.to_thread(load)  # most of a second, which the first attempt should not pay
    async with fcm_peer() as peer, webpush_peer() as web:
        pushing = Pushing(database, peer, web)
        await pushing.phone("phone")
        rig = FcmRig(pushing)
        yield rig
        await rig.provider.close()


@asynccontextmanager
async def webpush_rig(database: Database) -> AsyncIterator[Rig]:
    """The push provider, a push service and a browser."""
    async with fcm_peer() as peer, webpush_peer() as web:
        pushing = Pushing(database, peer, web)
        await pushing.browser("browser")
        rig = WebPushRig(pushing)
        yield rig
        await rig.provider.close()


RIGS: dict[str, Callable[[Database], AbstractAsyncContextManager[Rig]]] = {
    "smtp": email_rig,
    "fcm": fcm_rig,
    "webpush": webpush_rig,
}


def push_parcels() -> Callable[[str], Parcel]:
    """Makes parcels of one push each, to a recipient."""
    numbers = itertools.count(1)

    def make(recipient_id: str) -> Parcel:
        event_id: EventId = new_event_id()
        return Parcel(
            JobId(next(numbers)), event_id, ScopeId(1), Channel.PUSH, recipient_id, CONTENT, scoped_tenant(), 1, False
        )

    return make


def _email(port: int) -> EmailProvider:
    relays = OneRelay(parse_relay(f"smtp://127.0.0.1:{port}"))
    return EmailProvider(relays, pool_size=CONNECTIONS, attempt_timeout=ATTEMPT)


def _push(pushing: Pushing, fcm_url: str) -> PushProvider:
    account = OneAccount(parse_service_account(pushing.peer.account.text.encode()))
    firebase = FcmSender(connections=CONNECTIONS, within=ATTEMPT, base_url=fcm_url)
    browsers = WebPushSender(pushing.web.rules, connections=CONNECTIONS, within=ATTEMPT)
    roads = Roads(account, firebase, pushing.vapid, browsers)
    return PushProvider(pushing.database, roads, attempt_timeout=ATTEMPT)


async def _once(rig: Rig, provider: Provider) -> tuple[Verdict, Parcel]:
    parcel = rig.parcel()
    verdict = await rig.attempt(parcel, provider)
    await provider.close()
    return verdict, parcel
