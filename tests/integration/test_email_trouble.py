"""A relay that is away, blocks us, refuses our login or hangs up: all mail goes out once it is mended, and once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

import pytest

from services.email.provider import EmailProvider
from services.email.relays import OneRelay
from services.email.suppressed import SuppressionList
from shared.channel import Channel
from shared.delivery.breaker import FAILURES_TO_OPEN
from shared.relay import Relay
from shared.store.database import Database
from shared.store.pauses import Pause, PauseKey, PauseKind, read_pauses
from tests.factories import WAIT_SECONDS, create_jobs, new_job
from tests.fakes.product import WAYBILL, clean_environment
from tests.fakes.smtp import SmtpSink
from tests.fakes.smtp_script import Act, Drop, Reply
from tests.fakes.working import working

STEP = timedelta(seconds=1)
LOGIN = ("campus", "right")
JOBS = 60
MANY = 300
CONNECTIONS = 6


@dataclass
class Post:
    """A relay, and a worker's way to it."""

    database: Database
    sink: SmtpSink

    def relay(self, username: str | None = None) -> Relay:
        return Relay("127.0.0.1", self.sink.port, username=username, password=LOGIN[1] if username else "")

    def provider(self, username: str | None = None) -> EmailProvider:
        seconds = timedelta(seconds=5)
        suppressions = SuppressionList(self.database, seconds)
        return EmailProvider(
            OneRelay(self.relay(username)), pool_size=CONNECTIONS, attempt_timeout=seconds, suppressions=suppressions
        )

    async def ask(self, query: str) -> int:
        async with self.database.hot() as pg:
            return int(await pg.fetchval(query))

    async def until_rows(self, condition: str, count: int) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while await self.ask(f"SELECT count(*) FROM outgoing WHERE {condition}") < count:
                await asyncio.sleep(0.05)

    async def pauses(self) -> list[Pause]:
        async with self.database.hot() as pg:
            return await read_pauses(pg)

    async def until_paused(self, refusals: int = 1) -> Pause:
        """The pause that stands, once it has met so many refusals."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not (pauses := await self.pauses()) or pauses[0].failures < refusals:
                await asyncio.sleep(0.05)
        return pauses[0]

    async def all_sent_once(self, count: int = JOBS) -> None:
        """Every job is SENT, no attempt was counted but the last, nobody is suppressed, no mail went twice."""
        await self.until_rows("status = 'SENT'", count)
        assert await self.ask("SELECT count(*) FROM outgoing WHERE attempts <> 1 OR unknowns <> 0") == 0
        assert await self.ask("SELECT count(*) FROM suppressions") == 0
        assert await self.pauses() == []
        assert set(Counter(mail.message_id for mail in self.sink.mails).values()) == {1}
        assert len(self.sink.mails) == count


@pytest.fixture
async def post(database: Database) -> AsyncIterator[Post]:
    sink = await SmtpSink().start()
    yield Post(database, sink)
    await sink.close()


async def test_a_relay_that_is_away_costs_nothing_and_all_mail_goes_out_when_it_is_back(post: Post) -> None:
    await create_jobs(post.database, [new_job() for _ in range(JOBS)])
    await post.sink.close()
    async with working(post.database, post.provider(), unanswered_step=STEP):
        async with asyncio.timeout(WAIT_SECONDS):
            while await post.ask("SELECT sum(unanswered) FROM outgoing") <= FAILURES_TO_OPEN:
                await asyncio.sleep(0.05)  # until one was tried again, alone, and in vain
        await post.sink.start()
        await post.all_sent_once()
    assert await post.ask("SELECT count(*) FROM attempts WHERE verdict = 'no_verdict'") > FAILURES_TO_OPEN


BLOCKS = [
    ("connect", Reply(554, "5.7.1 Service unavailable; your address 192.0.2.1 is blocked")),
    ("mail", Reply(550, "5.7.1 Client host 192.0.2.1 is blocked, see https://blocklist.example")),
    ("rcpt", Reply(550, "5.7.1 Service unavailable, Client host [192.0.2.1] blocked using zen.spamhaus.org")),
]


@pytest.mark.parametrize(("stage", "block"), BLOCKS)
async def test_a_relay_that_blocks_us_is_paused_and_no_recipient_suffers(post: Post, stage: str, block: Act) -> None:
    await create_jobs(post.database, [new_job() for _ in range(JOBS)])
    post.sink.script.always(stage, block)
    async with working(post.database, post.provider(), unanswered_step=STEP):
        pause = await post.until_paused(refusals=2)  # the second is a probe's
        assert pause.key == PauseKey(PauseKind.RELAY, Channel.EMAIL, name=post.relay().circuit)
        assert isinstance(block, Reply)
        assert (pause.code, block.text.partition(" ")[2] in pause.reason) == (str(block.code), True)
        tried = await post.ask("SELECT sum(unanswered) FROM outgoing")
        assert tried < JOBS, "each mail has found out for itself"
        post.sink.script.forget()
        await post.all_sent_once()


async def test_a_relay_that_refuses_our_login_is_paused_where_operators_look(post: Post, database_url: str) -> None:
    post.sink.login = ("campus", "wrong")
    await create_jobs(post.database, [new_job() for _ in range(JOBS)])
    async with working(post.database, post.provider(LOGIN[0]), unanswered_step=STEP):
        await post.until_paused()
        shown = await asyncio.create_subprocess_exec(
            *(WAYBILL, "pauses", "--json"),
            env=clean_environment({"DATABASE_URL": database_url}),
            stdout=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(WAIT_SECONDS):
            told, _ = await shown.communicate()
        assert "535" in told.decode() and LOGIN[1] not in told.decode()
        assert post.sink.mails == []
        post.sink.login = LOGIN
        await post.all_sent_once()


async def test_many_mails_over_connections_that_break_before_the_mail_is_out_go_once_each(post: Post) -> None:
    await create_jobs(post.database, [new_job() for _ in range(MANY)])
    for stage, every in {"mail": 37, "rcpt": 41, "data": 43}.items():
        post.sink.script.once(stage, *([None] * every + [Drop()]) * 3)
    async with working(post.database, post.provider(), unanswered_step=STEP):
        await post.all_sent_once(MANY)


async def test_a_mail_that_may_have_gone_out_goes_again_under_its_message_id_and_says_so(post: Post) -> None:
    await create_jobs(post.database, [new_job() for _ in range(JOBS)])
    post.sink.script.once("eod", None, None, Drop(), None, None, Drop())
    async with working(post.database, post.provider(), unanswered_step=STEP):
        await post.until_rows("status = 'SENT'", JOBS)
    copies = Counter(mail.message_id for mail in post.sink.mails)
    assert (len(copies), sorted(copies.values())[-3:]) == (JOBS, [1, 2, 2])
    assert await post.ask("SELECT count(*) FROM attempts WHERE possible_duplicate") == 2


async def test_a_mail_that_may_have_gone_out_is_held_where_its_rule_says_so(post: Post) -> None:
    await create_jobs(post.database, [new_job(on_unknown="hold")])
    post.sink.script.always("eod", Drop())
    async with working(post.database, post.provider(), unanswered_step=STEP):
        await post.until_rows("status = 'FAILED' AND reason = 'unknown_outcome'", 1)
    assert len(post.sink.mails) == 1
    assert await post.ask("SELECT count(*) FROM attempts WHERE verdict = 'no_verdict'") == 1
