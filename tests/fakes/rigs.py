"""Each provider with its peer on the wire, and the same handles on all of them: for the contract of providers."""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta

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
from shared.store.outgoing import NewJob
from shared.verdict import NoVerdict, Verdict
from tests.factories import new_job, scoped_tenant
from tests.fakes import fcm, smtp_script
from tests.fakes.answers import OF_FIREBASE, OF_PUSH_SERVICES, OF_RELAYS, Answer
from tests.fakes.fcm import Act
from tests.fakes.parcels import email_parcel
from tests.fakes.pushing import Pushing, push_job, pushing_on
from tests.fakes.smtp import SmtpSink

CONNECTIONS = 4
ATTEMPT = timedelta(seconds=6)
"""What a silent peer costs a test, and what a busy machine has for one message."""
CONTENT = PushContent("Linear algebra is booked", "Tue 1 Dec, 15:00 with Ada", "en")


class Rig(ABC):
    """A provider and its peer. ``answering`` is what a slow peer waits for."""

    channel: Channel
    provider: Provider

    def __init__(self) -> None:
        self.answering = asyncio.Event()

    @abstractmethod
    def answers(self, answer: Answer) -> None:
        """Have the peer do this from now on."""

    @property
    @abstractmethod
    def taken_count(self) -> int:
        """How many messages it has taken to the end and said so."""

    @property
    @abstractmethod
    def asked_count(self) -> int:
        """How many messages it was asked to take, whatever it did with them."""

    @property
    @abstractmethod
    def open_count(self) -> int:
        """How many connections are open."""

    @property
    @abstractmethod
    def most_at_once(self) -> int:
        """How many were at the most."""

    @abstractmethod
    def parcel(self) -> Parcel:
        """One more job for the same recipient."""

    @abstractmethod
    def job(self) -> NewJob:
        """The same as a row for a worker."""

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

    channel = Channel.EMAIL

    def __init__(self, sink: SmtpSink, attempt: timedelta) -> None:
        super().__init__()
        self.sink = sink
        self.provider = _email(sink.port, attempt)

    def answers(self, answer: Answer) -> None:
        """Have the relay do this."""
        self.sink.script.forget()
        if answer is Answer.IS_SLOW:
            self.sink.script.always("eod", smtp_script.Wait(self.answering))
            return
        for stage, act in OF_RELAYS[answer]:
            self.sink.script.always(stage, act)

    @property
    def taken_count(self) -> int:
        """Mails taken to the final dot."""
        return len(self.sink.mails)

    @property
    def asked_count(self) -> int:
        """How often a mail's text was announced."""
        return sum(verb == "DATA" for _, verb in self.sink.commands)

    @property
    def open_count(self) -> int:
        """The relay's connections."""
        return self.sink.open_count

    @property
    def most_at_once(self) -> int:
        """The relay's most connections."""
        return self.sink.most_at_once

    def parcel(self) -> Parcel:
        """A mail to bob."""
        return email_parcel()

    def job(self) -> NewJob:
        """A mail to bob."""
        return new_job()

    async def to_nobody(self) -> tuple[Verdict, Parcel]:
        """A relay that takes no connection."""
        return await _once(self, _email(free_ports(1)[0], ATTEMPT))


class PushRig(Rig):
    """One target of bob's, behind a peer that counts its lines."""

    channel = Channel.PUSH

    def __init__(self, pushing: Pushing, attempt: timedelta) -> None:
        super().__init__()
        self.pushing = pushing
        self.provider = _push(pushing, pushing.peer.base_url, attempt)
        self.parcels = push_parcels()

    def parcel(self) -> Parcel:
        """A push to bob."""
        return self.parcels("bob")

    def job(self) -> NewJob:
        """A push to bob."""
        return push_job()

    def act(self, answers: Mapping[Answer, Act | None], answer: Answer) -> Act | None:
        """What ``answer`` is, by the table of the peer."""
        return fcm.Wait(self.answering) if answer is Answer.IS_SLOW else answers[answer]


class FcmRig(PushRig):
    """One phone behind a Firebase."""

    def answers(self, answer: Answer) -> None:
        """Have Firebase do this."""
        self.pushing.peer.always("phone", self.act(OF_FIREBASE, answer))

    @property
    def taken_count(self) -> int:
        """Messages the phone got."""
        return len(self.pushing.peer.rung("phone"))

    @property
    def asked_count(self) -> int:
        """Messages that Firebase was asked to take."""
        return self.pushing.peer.post_count

    @property
    def open_count(self) -> int:
        """Firebase's connections."""
        return self.pushing.peer.lines.open_count

    @property
    def most_at_once(self) -> int:
        """Firebase's most connections."""
        return self.pushing.peer.lines.most_at_once

    async def to_nobody(self) -> tuple[Verdict, Parcel]:
        """A Firebase that takes no connection."""
        return await _once(self, _push(self.pushing, f"http://127.0.0.1:{free_ports(1)[0]}", ATTEMPT))


class WebPushRig(PushRig):
    """One browser behind its push service."""

    def answers(self, answer: Answer) -> None:
        """Have the push service do this."""
        self.pushing.web.always("browser", self.act(OF_PUSH_SERVICES, answer))

    @property
    def taken_count(self) -> int:
        """Messages the browser got."""
        return len(self.pushing.web.browsers["browser"].shown)

    @property
    def asked_count(self) -> int:
        """Messages that the push service was asked to take."""
        return self.pushing.web.browsers["browser"].post_count

    @property
    def open_count(self) -> int:
        """The push service's connections."""
        return self.pushing.web.lines.open_count

    @property
    def most_at_once(self) -> int:
        """The push service's most connections."""
        return self.pushing.web.lines.most_at_once

    async def to_nobody(self) -> tuple[Verdict, Parcel]:
        """A browser whose push service takes no connection."""
        web, (port,) = self.pushing.web, free_ports(1)
        web.browsers["browser"] = replace(web.browsers["browser"], endpoint=f"http://127.0.0.1:{port}/push/browser")
        await self.pushing.browser("browser", recipient_id="nobody")
        web.rules = EndpointRules(trusted=frozenset({Pair("127.0.0.1", port)}))
        provider = _push(self.pushing, self.pushing.peer.base_url, ATTEMPT)
        parcel = self.parcels("nobody")
        verdict = await self.attempt(parcel, provider)
        await provider.close()
        return verdict, parcel


@asynccontextmanager
async def email_rig(_database: Database, attempt: timedelta) -> AsyncIterator[Rig]:
    """The email provider and a relay."""
    sink = await SmtpSink().start()
    rig = EmailRig(sink, attempt)
    try:
        yield rig
    finally:
        await rig.provider.close()
        await sink.close()


@asynccontextmanager
async def fcm_rig(database: Database, attempt: timedelta) -> AsyncIterator[Rig]:
    """The push provider, Firebase and a phone."""
    await asyncio.to_thread(load)  # most of a second, which the first attempt should not pay
    async with pushing_on(database) as pushing:
        await pushing.phone("phone")
        rig = FcmRig(pushing, attempt)
        yield rig
        await rig.provider.close()


@asynccontextmanager
async def webpush_rig(database: Database, attempt: timedelta) -> AsyncIterator[Rig]:
    """The push provider, a push service and a browser."""
    async with pushing_on(database) as pushing:
        await pushing.browser("browser")
        rig = WebPushRig(pushing, attempt)
        yield rig
        await rig.provider.close()


RIGS: dict[str, Callable[[Database, timedelta], AbstractAsyncContextManager[Rig]]] = {
    "smtp": email_rig,
    "fcm": fcm_rig,
    "webpush": webpush_rig,
}
"""Every provider. A rig's attempts may take as long as its maker is told."""


def push_parcels() -> Callable[[str], Parcel]:
    """Makes parcels of one push each, to a recipient."""
    numbers = itertools.count(1)

    def make(recipient_id: str) -> Parcel:
        event_id: EventId = new_event_id()
        return Parcel(
            JobId(next(numbers)), event_id, ScopeId(1), Channel.PUSH, recipient_id, CONTENT, scoped_tenant(), 1, False
        )

    return make


def _email(port: int, attempt: timedelta) -> EmailProvider:
    relays = OneRelay(parse_relay(f"smtp://127.0.0.1:{port}"))
    return EmailProvider(relays, pool_size=CONNECTIONS, attempt_timeout=attempt)


def _push(pushing: Pushing, fcm_url: str, attempt: timedelta) -> PushProvider:
    account = OneAccount(parse_service_account(pushing.peer.account.text.encode()))
    firebase = FcmSender(connections=CONNECTIONS, within=attempt, base_url=fcm_url)
    browsers = WebPushSender(pushing.web.rules, connections=CONNECTIONS, within=attempt)
    roads = Roads(account, firebase, pushing.vapid, browsers)
    return PushProvider(pushing.database, roads, attempt_timeout=attempt)


async def _once(rig: Rig, provider: Provider) -> tuple[Verdict, Parcel]:
    parcel = rig.parcel()
    verdict = await rig.attempt(parcel, provider)
    await provider.close()
    return verdict, parcel
