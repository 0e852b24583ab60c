"""The long outage of Firebase: it would not work, then it says nothing at all, and events go on coming all the while.

When it is over, all of them ring every phone, once each, and the push process is what it was before.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from shared.lifecycle import stopped_within
from shared.store.database import Database
from tests.fakes.fcm import UNAVAILABLE, Act, Hang
from tests.fakes.installation import Installation, prepared
from tests.fakes.product import eventually
from tests.prove.aftermath import SLOTS, Aftermath, count_unknowns, harm
from tests.prove.footprint import Footprint, Watched, watched
from tests.prove.storm import AGAIN_AFTER_SECONDS, Say, until_final

SERVICES = ("ingest", "router", "push", "inapp")
PHONES = {f"somebody-{number}": tuple(f"phone-{number}-{one}" for one in range(1 + number % 2)) for number in range(20)}
"""Who there is, and with which phones: every other has two."""
NOTICED_SECONDS = 120.0
"""How long a phase may take to show at Firebase: an attempt comes at the latest when the breaker's rest is over."""
FINAL_SECONDS = 1800.0
"""A job that met several silences in a row waits up to 15 minutes for its next try, Firebase or no Firebase."""
CALM_SECONDS = 60.0
"""How long connections may stay open for nothing."""
STUBBORN_SECONDS = 120.0


@dataclass(frozen=True)
class Outage:
    """``pace`` events a second while Firebase is away for ``seconds``: half of them refusing, half of them silent.

    It works for ``around`` seconds before and after. ``settings`` go before the product's own. ``to_the_last``: in the
    end every kept connection must close, too, which takes half a minute.
    """

    seconds: float = 600.0
    pace: float = 50.0
    around: float = 10.0
    to_the_last: bool = True
    settings: Mapping[str, str] = field(
        default_factory=lambda: {
            "PUSH_SLOTS": str(SLOTS),
            "PUSH_LEASE": "30s",
            "PUSH_ATTEMPT_TIMEOUT": "10s",
            "LEASE_MARGIN": "5s",
            "UNANSWERED_BACKOFF": "60s",
        }
    )


@dataclass
class Traffic:
    """What the products have posted so far."""

    installation: Installation
    accepted: int = 0

    async def run(self, pace: float, over: asyncio.Event) -> None:
        """``pace`` events a second until ``over``, and until each of them is accepted."""
        began, number = time.monotonic(), 0
        async with asyncio.TaskGroup() as posting:
            while not await stopped_within(over, max(began + number / pace - time.monotonic(), 0)):
                posting.create_task(self._post(number))
                number += 1

    async def _post(self, number: int) -> None:
        recipient_id = list(PHONES)[number % len(PHONES)]
        async with asyncio.timeout(STUBBORN_SECONDS):
            while True:
                try:
                    answer = await self.installation.post(
                        key=f"outage-{number}",
                        event_type="review_ready",
                        recipient={"id": recipient_id, "locale": "en"},
                        payload={"review_id": f"rv_{number}", "course": "Linear algebra", "tutor": "Ada"},
                    )
                except httpx.TransportError:
                    await asyncio.sleep(AGAIN_AFTER_SECONDS)
                    continue
                assert answer.status_code == 202, answer.text
                self.accepted += 1
                return


async def fcm_outage(database_url: str, amqp_url: str, folder: Path, outage: Outage, say: Say) -> Aftermath:
    """One outage, on a migrated database and a broker of its own; outputs of the processes go to ``folder``."""
    async with prepared(database_url, amqp_url, folder) as installation:
        installation.settings |= outage.settings
        await installation.start(*SERVICES)
        for recipient_id, phones in PHONES.items():
            for phone in phones:
                await installation.phone(phone, recipient_id)
        traffic, database = Traffic(installation), Database(database_url, pool_size=2)
        try:
            async with watched(installation.processes["push"].pid, installation.fcm.lines) as push:
                before = await _live_through(traffic, outage, push, say)
                recovered = time.monotonic()
                say(f"{traffic.accepted} events were accepted; waiting for the last of them")
                await until_final(database, FINAL_SECONDS)
                drained = time.monotonic() - recovered
                left = 0 if outage.to_the_last else before.connections
                after = await _calm(push, left)
            return Aftermath(
                await harm(database, installation.fcm, PHONES, traffic.accepted),
                jobs=traffic.accepted,
                posts=installation.fcm.post_count,
                unknowns=await count_unknowns(database),
                silent_seconds=outage.seconds / 2,
                drained_seconds=round(drained, 1),
                before=before,
                most=push.most,
                after=after,
                connections_left=left,
            )
        finally:
            await database.close()


async def _live_through(traffic: Traffic, outage: Outage, push: Watched, say: Say) -> Footprint:
    """What push took up before the outage; returns when Firebase has worked again for a while, and posting is over."""
    installation, over = traffic.installation, asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(traffic.run(outage.pace, over))
        await _all_phones(installation, None, outage.around)
        before = await push.now()
        for act, words in ((UNAVAILABLE, "answers with 503"), (Hang(), "says nothing")):
            say(f"Firebase {words}")
            await _all_phones(installation, act, outage.seconds / 2)
        await _all_phones(installation, None, outage.around)
        over.set()
    return before


async def _all_phones(installation: Installation, act: Act | None, seconds: float) -> None:
    """Have Firebase do ``act`` for so long, and until it was asked."""
    for phones in PHONES.values():
        for phone in phones:
            installation.fcm.always(phone, act)
    before = installation.fcm.post_count

    async def asked() -> bool:
        return installation.fcm.post_count > before

    await stopped_within(asyncio.Event(), seconds)
    await eventually(asked, NOTICED_SECONDS)


async def _calm(push: Watched, left: int) -> Footprint:
    """What push takes up once no more than ``left`` connections are open, or after long enough."""

    async def is_calm() -> bool:
        return (await push.now()).connections <= left

    with contextlib.suppress(AssertionError):
        await eventually(is_calm, CALM_SECONDS, pause=0.5)
    return await push.now()
