"""A relay that is away, then blocks us, then refuses our login, each for minutes, while mail goes on coming."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from services.email.provider import EmailProvider
from services.email.relays import OneRelay
from services.email.suppressed import SuppressionList
from shared.lifecycle import stopped_within
from shared.relay import Relay
from shared.store.database import Database
from tests.factories import create_jobs, new_job
from tests.fakes.smtp import SmtpSink
from tests.fakes.smtp_script import Reply
from tests.fakes.working import working

USER, PASSWORD = "campus", "a password"
SLOTS = 20
ATTEMPT = timedelta(seconds=10)
STEP = timedelta(seconds=5)
"""The first wait after a silence; a minute in real life, which would only make this longer."""
MENDED_WITHIN_SECONDS = 600.0
BLOCKED = Reply(554, "5.7.1 your address is blocked")
NO_LOGIN = Reply(535, "5.7.8 authentication failed")

Trouble = tuple[str, Callable[[SmtpSink], Awaitable[None]], Callable[[SmtpSink], Awaitable[object]]]


@dataclass(frozen=True)
class Mended:
    """What was left when it was over. ``paused``: which troubles showed as a pause that operators see."""

    jobs: int
    mails: int
    failed: int
    attempts_counted: int
    suppressed: int
    twice: int
    paused: tuple[str, ...]
    seconds_to_drain: tuple[float, ...]

    @property
    def is_good(self) -> bool:
        """Whether every mail went out once, nobody was harmed, and what people must mend could be seen."""
        unharmed = (self.failed, self.suppressed, self.twice) == (0, 0, 0)
        return unharmed and self.mails == self.attempts_counted == self.jobs and self.paused == ("blocks", "no_login")


async def relay_outage(database: Database, seconds: float, pace: float, say: Callable[[str], None]) -> Mended:
    """Each trouble for ``seconds``, with ``pace`` mails a second."""
    sink = await SmtpSink(login=(USER, PASSWORD)).start()
    relay = OneRelay(Relay("127.0.0.1", sink.port, username=USER, password=PASSWORD))
    provider = EmailProvider(
        relay, pool_size=SLOTS, attempt_timeout=ATTEMPT, suppressions=SuppressionList(database, ATTEMPT)
    )
    jobs, paused, drained = 0, [], []
    async with working(database, provider, slots=SLOTS, attempt_timeout=ATTEMPT, unanswered_step=STEP):
        for name, begin, end in TROUBLES:
            say(f"the relay: {name}")
            await begin(sink)
            sink.cut()
            jobs += await _post(database, seconds, pace)
            if await _read(database, "SELECT count(*) FROM pauses WHERE kind = 'relay'"):
                paused.append(name)
            await end(sink)
            began = time.monotonic()
            async with asyncio.timeout(MENDED_WITHIN_SECONDS):
                while await _read(database, "SELECT count(*) FROM outgoing WHERE status = 'PENDING'"):
                    await asyncio.sleep(0.2)
            drained.append(round(time.monotonic() - began, 1))
    await sink.close()
    copies = Counter(mail.message_id for mail in sink.mails)
    return Mended(
        jobs=jobs,
        mails=len(copies),
        failed=await _read(database, "SELECT count(*) FROM outgoing WHERE status <> 'SENT'"),
        attempts_counted=await _read(database, "SELECT coalesce(sum(attempts), 0) FROM outgoing"),
        suppressed=await _read(database, "SELECT count(*) FROM suppressions"),
        twice=len(sink.mails) - len(copies),
        paused=tuple(paused),
        seconds_to_drain=tuple(drained),
    )


async def _post(database: Database, seconds: float, pace: float) -> int:
    """The mails that came in ``seconds``."""
    began, count, never = time.monotonic(), 0, asyncio.Event()
    while time.monotonic() - began < seconds:
        await create_jobs(database, [new_job()])
        count += 1
        await stopped_within(never, max(began + count / pace - time.monotonic(), 0))
    return count


async def _read(database: Database, query: str) -> int:
    async with database.hot() as pg:
        return int(await pg.fetchval(query))


async def _go(sink: SmtpSink) -> None:
    await sink.close()


async def _come_back(sink: SmtpSink) -> None:
    await sink.start()


async def _block(sink: SmtpSink) -> None:
    sink.script.always("connect", BLOCKED)


async def _refuse_login(sink: SmtpSink) -> None:
    sink.script.always("auth", NO_LOGIN)


async def _work(sink: SmtpSink) -> None:
    sink.script.forget()


TROUBLES: tuple[Trouble, ...] = (
    ("away", _go, _come_back),
    ("blocks", _block, _work),
    ("no_login", _refuse_login, _work),
)
