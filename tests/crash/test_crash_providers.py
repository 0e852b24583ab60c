"""Relays and Firebase refusing, silent, slow, flapping: all goes out when they answer, and nothing is used up."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from shared.lifecycle import stopped_within
from tests.fakes import fcm, smtp_script
from tests.fakes.fcm import UNAVAILABLE, FcmPeer
from tests.fakes.product import eventually
from tests.fakes.smtp import SmtpSink
from tests.fakes.somebody import Somebody
from tests.fakes.wire import Wire, wire_to
from tests.fakes.wired import SENDERS, Wired

SETTINGS = {
    "EMAIL_ATTEMPT_TIMEOUT": "4s",
    "EMAIL_LEASE": "9s",
    "PUSH_ATTEMPT_TIMEOUT": "4s",
    "PUSH_LEASE": "9s",
    "LEASE_MARGIN": "1s",
}
TALKING = ("email", "push")
"""The channels with a provider to talk to."""
FLAPS, FLAP_SECONDS = 3, 1.0
FEW, MANY, ENOUGH = 2, 12, 5
"""Events that make an outage seem an accident, those that make it one for everybody, and how many it takes to see."""


@dataclass(frozen=True)
class Providers:
    """The relay and Firebase, and the wires that lead to them."""

    sink: SmtpSink
    fcm: FcmPeer
    wires: tuple[Wire, Wire]


@pytest.fixture(scope="module")
async def providers(standing: Wired) -> AsyncIterator[Providers]:
    """The installation's providers, each at the end of a wire."""
    installation = standing.installation
    peer = urlsplit(installation.fcm.base_url)
    async with (
        wire_to("127.0.0.1", installation.sink.port) as to_relay,
        wire_to(peer.hostname or "", peer.port or 0) as to_fcm,
    ):
        installation.own["email"] = {"SMTP_URL": f"smtp://127.0.0.1:{to_relay.port}"}
        installation.own["push"] = {"FCM_BASE_URL": f"http://127.0.0.1:{to_fcm.port}"}
        await asyncio.gather(*(standing.process(name).stop() for name in TALKING))
        await standing.start(*TALKING)
        # Push is ready long before it has loaded what it sends with.
        await standing.sent(await (await standing.somebody("zoe")).accepted())
        yield Providers(installation.sink, installation.fcm, (to_relay, to_fcm))


@asynccontextmanager
async def refused(providers: Providers) -> AsyncIterator[None]:
    """Nobody listens."""
    for wire in providers.wires:
        await wire.cut()
    try:
        yield
    finally:
        for wire in providers.wires:
            await wire.mend()


@asynccontextmanager
async def silent(providers: Providers) -> AsyncIterator[None]:
    """Connections are taken, and nothing is ever said."""
    for wire in providers.wires:
        wire.freeze()
    try:
        yield
    finally:
        for wire in providers.wires:
            wire.strand()


@asynccontextmanager
async def slow(providers: Providers) -> AsyncIterator[None]:
    """All is said a second late."""
    for wire in providers.wires:
        wire.freeze()
    try:
        yield
        await stopped_within(asyncio.Event(), 1.0)
    finally:
        for wire in providers.wires:
            wire.thaw()


@asynccontextmanager
async def stranded(providers: Providers) -> AsyncIterator[None]:
    """The connections that are kept lead nowhere any more."""
    for wire in providers.wires:
        wire.strand()
    yield


@asynccontextmanager
async def refusing(providers: Providers) -> AsyncIterator[None]:
    """The service is there, and out of service."""
    providers.sink.cut()
    providers.sink.script.always("connect", smtp_script.Reply(421, "4.3.2 the system is not accepting messages"))
    providers.fcm.before_reading = UNAVAILABLE
    try:
        yield
    finally:
        providers.sink.script.forget()
        providers.fcm.before_reading = None


@asynccontextmanager
async def dropping(providers: Providers) -> AsyncIterator[None]:
    """Connections are taken and cut off in mid-dialogue."""
    providers.sink.script.always("rcpt", smtp_script.Drop())
    providers.fcm.before_reading = fcm.Drop()
    try:
        yield
    finally:
        providers.sink.script.forget()
        providers.fcm.before_reading = None


Outage = Callable[[Providers], AbstractAsyncContextManager[None]]


async def all_sent(wired: Wired, one: Somebody, event_ids: list[str]) -> None:
    """Everything went out, repeats are flagged, nothing counted but what was answered, every attempt is listed."""
    flagged = dict.fromkeys(SENDERS, 0)
    for event_id in event_ids:
        attempts = await wired.sent(event_id)
        assert set(attempts) == set(SENDERS)
        for channel, listed in attempts.items():
            *earlier, (last, is_flagged) = listed
            assert last == "delivered"
            assert {verdict for verdict, _ in earlier} <= {"no_verdict"}
            flagged[channel] += is_flagged
            assert (await wired.tried(event_id, channel))["attempts"] == 1
        assert attempts["inapp"] == [("delivered", False)]
    got = await one.got()
    assert got["inapp"] == len(event_ids)
    for channel in TALKING:
        assert len(event_ids) <= got[channel] <= len(event_ids) + flagged[channel]
    await wired.harmed_none_but()


async def silences(wired: Wired, event_id: str, channel: str) -> int:
    """How often nobody answered, before or after the hand-over."""
    tried = await wired.tried(event_id, channel)
    return int(tried.get("unanswered", 0) + tried.get("unknowns", 0))


@pytest.mark.parametrize("outage", [refused, silent, slow, stranded, refusing, dropping])
async def test_what_was_posted_while_relay_and_firebase_were_away_goes_out_and_costs_no_attempt(
    wired: Wired, providers: Providers, outage: Outage
) -> None:
    one = await wired.somebody(f"abe-{outage.__name__}")
    async with outage(providers):
        event_ids = [await one.accepted() for _ in range(FEW)]

        async def all_in_vain() -> bool:
            if outage in {stranded, slow}:
                return True
            return min([await silences(wired, one, channel) for one in event_ids for channel in TALKING]) > 0

        await eventually(all_in_vain)
    await all_sent(wired, one, event_ids)


async def test_a_relay_that_is_away_holds_up_no_push_and_mail_alone_is_tried_again(
    wired: Wired, providers: Providers
) -> None:
    one, to_relay = await wired.somebody("dan"), providers.wires[0]
    await to_relay.cut()
    try:
        event_id = await one.accepted()

        async def only_mail_waits() -> bool:
            return (await one.got())["push"] == 1 and await silences(wired, event_id, "email") > 0

        await eventually(only_mail_waits)
    finally:
        await to_relay.mend()
    attempts = await wired.sent(event_id)
    assert attempts["push"] == attempts["inapp"] == [("delivered", False)]
    *in_vain, delivered = attempts["email"]
    assert delivered == ("delivered", False)
    assert set(in_vain) == {("no_verdict", False)}
    assert await one.got() == dict.fromkeys(SENDERS, 1)
    await wired.harmed_none_but()


async def test_providers_that_come_and_go_lose_nothing(wired: Wired, providers: Providers) -> None:
    one, event_ids, over = await wired.somebody("ben"), [], asyncio.Event()

    async def flap() -> None:
        for _ in range(FLAPS):
            async with refused(providers):
                await stopped_within(over, FLAP_SECONDS)
            await stopped_within(over, FLAP_SECONDS)
        over.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(flap())
        while not over.is_set():
            event_ids.append(await one.accepted())
            await stopped_within(over, FLAP_SECONDS / 4)
    await all_sent(wired, one, event_ids)


async def test_an_outage_that_stops_all_sending_costs_the_jobs_that_showed_it_nothing(
    wired: Wired, providers: Providers
) -> None:
    one = await wired.somebody("cat")
    async with refusing(providers):
        event_ids = [await one.accepted() for _ in range(MANY)]

        async def enough_in_vain() -> bool:
            counts = {channel: [await silences(wired, one, channel) for one in event_ids] for channel in TALKING}
            return min(sum(count > 0 for count in counts[channel]) for channel in TALKING) >= ENOUGH

        await eventually(enough_in_vain)
        # Those that come now find the way closed, if it has been closed.
        event_ids += [await one.accepted() for _ in range(FEW)]
        assert [(await one.got())[channel] for channel in TALKING] == [0, 0]
    await all_sent(wired, one, event_ids)
