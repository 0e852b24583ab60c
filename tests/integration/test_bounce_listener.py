"""The bounce listener and whoever connects to it: relays with bounces, and everybody else on the Internet."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import aiosmtplib
import pytest

from services.email.dialogue import Patience
from services.email.listener import Limits, Listener
from services.email.receiving import Receiving
from services.email.returnpath import ReturnPaths
from services.email.wire import Bounds
from shared.lifecycle import run_parts
from shared.store.database import Database
from tests.fakes.product import eventually
from tests.integration.test_bounce_intake import BOUNCED, FOREIGN, PATHS, SENT, Back, back

__all__ = ["back"]

DOMAIN = "mail.shop.example"


class Caller:
    """One connection to the listener, in bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answer(self) -> str:
        """The next answer, its lines as one; '' when the listener has hung up."""
        lines = []
        async with asyncio.timeout(20):
            while line := await self.reader.readline():
                lines.append(line.decode().rstrip())
                if line[3:4] != b"-":
                    break
        return "\n".join(lines)

    async def say(self, line: str | bytes) -> str:
        """The answer to ``line``."""
        self.writer.write((line.encode() if isinstance(line, str) else line) + b"\r\n")
        return await self.answer()

    async def ends(self) -> str:
        """The rest of what the listener says until it hangs up, which it must do."""
        async with asyncio.timeout(20):
            try:
                return (await self.reader.read()).decode()
            except ConnectionError:
                return ""

    async def begin(self, path: str) -> None:
        """Everything up to the mail itself."""
        assert (await self.say("EHLO relay.example")).startswith("250")
        assert (await self.say("MAIL FROM:<>")).startswith("250")
        assert (await self.say(f"RCPT TO:<{path}>")).startswith("250")
        assert (await self.say("DATA")).startswith("354")


@asynccontextmanager
async def listening(receiving: Receiving, limits: Limits | None = None, protocol: str = "smtp") -> AsyncIterator[int]:
    """The port of a listener."""
    stop = asyncio.Event()
    part = Listener(receiving, PATHS, protocol, limits).part("127.0.0.1", 0)
    serving = asyncio.create_task(run_parts([part], stop))
    try:
        yield part.port
    finally:
        stop.set()
        await serving


@pytest.fixture
async def away() -> AsyncIterator[Receiving]:
    """What takes bounces in where Postgres is away: nothing but a real report needs it."""
    database = Database("postgresql://waybill@127.0.0.1:1/waybill")
    yield Receiving(database, PATHS)
    await database.close()


def some_path() -> str:
    """A good return path of some job."""
    return str(PATHS.address_for(uuid4(), datetime.now(UTC)))


@asynccontextmanager
async def calling(port: int, source: str = "127.0.0.1") -> AsyncIterator[Caller]:
    """A connection, not greeted yet."""
    async with asyncio.timeout(20):
        caller = Caller(*await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0)))
    try:
        yield caller
    finally:
        caller.writer.close()


@asynccontextmanager
async def greeted(port: int, source: str = "127.0.0.1") -> AsyncIterator[Caller]:
    """A connection that the listener has taken."""
    async with calling(port, source) as caller:
        assert (await caller.answer()).startswith("220")
        yield caller


async def test_it_takes_bounces_for_return_paths_of_ours_and_nothing_else(back: Back) -> None:
    async with listening(back.receiving) as port, aiosmtplib.SMTP(hostname="127.0.0.1", port=port) as client:
        forged = back.return_path(ReturnPaths((FOREIGN,), DOMAIN))
        expired = back.return_path(ago=timedelta(days=15))
        for stranger in ("bob@example.com", f"bounces+nonsense@{DOMAIN}", "postmaster", forged, expired):
            with pytest.raises(aiosmtplib.SMTPRecipientsRefused):
                await client.sendmail("", stranger, back.bounce(stranger))
        assert await back.state() == SENT
        path = back.return_path()
        await client.sendmail("", path, back.bounce(path))
        assert await back.state() == BOUNCED


@pytest.mark.parametrize("sender", ["<>", "<MAILER-DAEMON@relay.example> SIZE=2000 BODY=8BITMIME SMTPUTF8"])
async def test_it_does_not_mind_whom_a_bounce_is_from(back: Back, sender: str) -> None:
    path = back.return_path().upper()
    async with listening(back.receiving) as port, greeted(port) as relay:
        assert (await relay.say("helo relay.example")).startswith("250")
        assert (await relay.say(f"mail from:{sender}")).startswith("250")
        assert (await relay.say(f"rcpt to:<{path}>")).startswith("250")
        assert (await relay.say(f"rcpt to:<{path}>")).startswith("452")
        assert (await relay.say("data")).startswith("354")
        assert (await relay.say(back.bounce(path) + b".")).startswith("250")
        assert (await relay.say("quit")).startswith("221")
        assert await relay.ends() == ""
    assert await back.state() == BOUNCED


@pytest.mark.parametrize(
    ("sender", "state"), [("<>", BOUNCED), ("<kim@example.com>", SENT)], ids=["nobody", "somebody"]
)
async def test_a_stranger_that_speaks_of_a_failure_is_believed_when_it_writes_from_nobody(
    back: Back, sender: str, state: tuple[str, str, list[str]]
) -> None:
    told = b"Undeliverable: Your order\r\n\r\nbob@example.com:\r\n550 5.1.1 no such user\r\n."
    async with listening(back.receiving) as port, greeted(port) as relay:
        await relay.say("EHLO relay.example")
        await relay.say(f"MAIL FROM:{sender}")
        await relay.say(f"RCPT TO:<{back.return_path()}>")
        await relay.say("DATA")
        assert (await relay.say(b"From: Gate <gate@relay.example>\r\nSubject: " + told)).startswith("250")
    assert await back.state() == state


async def test_it_speaks_lmtp(back: Back) -> None:
    path = back.return_path()
    async with listening(back.receiving, protocol="lmtp") as port, greeted(port) as relay:
        assert (await relay.say("EHLO relay.example")).startswith("500")
        assert "SIZE 10485760" in await relay.say("LHLO relay.example")
        for line in ("MAIL FROM:<>", f"RCPT TO:<{path}>"):
            assert (await relay.say(line)).startswith("250")
        assert (await relay.say("DATA")).startswith("354")
        assert (await relay.say(back.bounce(path) + b".")).startswith("250")
    assert await back.state() == BOUNCED


async def test_commands_sent_without_waiting_are_answered_in_their_order(back: Back) -> None:
    path = back.return_path()
    commands = f"EHLO r.example\r\nMAIL FROM:<>\r\nRCPT TO:<{path}>\r\nDATA\r\n".encode()
    async with listening(back.receiving) as port, greeted(port) as relay:
        relay.writer.write(commands + back.bounce(path) + b".\r\nRSET\r\nQUIT\r\n")
        answers = await relay.ends()
    codes = [line[:3] for line in answers.splitlines() if line[3:4] != "-"]
    assert codes == ["250", "250", "250", "354", "250", "250", "221"]
    assert await back.state() == BOUNCED


@pytest.mark.parametrize("end", [b"\n.\n", b"\r\n.\n", b"\n.\r\n", b"\r.\r", b"\r\n.\r", b"\n.\r\r\n"])
async def test_what_only_looks_like_the_end_of_a_mail_hides_no_second_one(away: Receiving, end: bytes) -> None:
    hidden = b"RSET\r\nMAIL FROM:<>\r\nNOOP\r\n."
    async with listening(away) as port, greeted(port) as relay:
        await relay.begin(some_path())
        assert (await relay.say(b"Subject: hello\r\n\r\nnothing" + end + hidden)).startswith("250 2.0.0 taken")
        assert (await relay.say("QUIT")).startswith("221")


async def test_a_command_that_ends_with_lf_alone_ends_the_connection(away: Receiving) -> None:
    async with listening(away) as port, greeted(port) as caller:
        caller.writer.write(b"EHLO r.example\nMAIL FROM:<>\n")
        assert (await caller.ends()).startswith("500 5.5.2")


@pytest.mark.parametrize("second", ["127.0.0.1", "127.0.0.2"])
async def test_one_connection_too_many_is_sent_away_and_the_others_stay(away: Receiving, second: str) -> None:
    limits = Limits(connections=2, of_one_address=2 if second == "127.0.0.2" else 1)
    async with listening(away, limits) as port, greeted(port) as first:
        async with calling(port, second) as other:
            if second == "127.0.0.2":
                assert (await other.answer()).startswith("220")
            async with calling(port) as late:
                # What it says all the same is not read, and it need not read what it is told.
                late.writer.write(b"EHLO r.example\r\n" * 10_000)
                assert (await late.ends())[:3] in ("421", "")
        assert (await first.say("NOOP")).startswith("250")
        await first.say("QUIT")
        await first.ends()

        async def has_room() -> bool:
            async with calling(port) as again:
                return (await again.answer()).startswith("220")

        await eventually(has_room)


@pytest.mark.parametrize(
    "limits",
    [Limits(connections=0), Limits(patience=Patience(stranger_seconds=0.3, commands=10_000)), Limits()],
    ids=["turned away", "too slow", "too much talk"],
)
async def test_who_reads_nothing_is_hung_up_on_all_the_same(away: Receiving, limits: Limits) -> None:
    loop = asyncio.get_running_loop()
    async with listening(away, limits) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as caller:
            caller.setblocking(False)

            async def is_hung_up() -> bool:
                try:
                    await loop.sock_sendall(caller, b"NOOP\r\n")
                except ConnectionError:
                    return True
                return False

            await eventually(is_hung_up)


async def test_one_address_cannot_take_every_place(away: Receiving) -> None:
    async with (
        listening(away, Limits(connections=3, of_one_address=1)) as port,
        greeted(port),
        calling(port) as same,
        greeted(port, "127.0.0.2") as other,
    ):
        assert (await same.ends()).startswith("421")
        assert (await other.say("NOOP")).startswith("250")


@pytest.mark.parametrize("typed", [b"", b"N", b"NOOP\r\n"])
async def test_a_stranger_is_not_waited_for_however_it_passes_the_time(away: Receiving, typed: bytes) -> None:
    limits = Limits(connections=1, patience=Patience(stranger_seconds=0.6, commands=1000))
    async with listening(away, limits) as port:
        async with greeted(port) as caller:
            told = b""
            async with asyncio.timeout(20):
                while b"421" not in told:
                    caller.writer.write(typed)
                    try:
                        told += await asyncio.wait_for(caller.reader.read(1000), 0.1)
                    except TimeoutError:
                        continue
            assert await caller.ends() == ""
        async with greeted(port) as next_one:
            assert (await next_one.say("NOOP")).startswith("250")


async def test_a_mail_that_trickles_in_is_not_waited_for_to_its_end(away: Receiving) -> None:
    path = some_path()
    limits = Limits(patience=Patience(total_seconds=0.6))
    async with listening(away, limits) as port, greeted(port) as caller:
        await caller.begin(path)
        told = b""
        async with asyncio.timeout(20):
            while b"421" not in told:
                caller.writer.write(b"x")
                try:
                    told += await asyncio.wait_for(caller.reader.read(1000), 0.1)
                except TimeoutError:
                    continue


@pytest.mark.parametrize(
    ("line", "most"),
    [("NOOP", 41), ("EHLO r.example", 41), ("RSET", 41), ("RCPT TO:<x@y.example>", 12), ("AUTH LOGIN", 12)],
)
async def test_endless_commands_end_the_connection(away: Receiving, line: str, most: int) -> None:
    async with listening(away) as port, greeted(port) as caller:
        caller.writer.write(f"{line}\r\n".encode() * 100)
        answers = [line for line in (await caller.ends()).splitlines() if line[3:4] != "-"]
    assert (len(answers), answers[-1][:3]) == (most, "421")


async def test_a_mail_that_is_too_large_is_refused_before_it_is_sent(away: Receiving) -> None:
    async with listening(away) as port, greeted(port) as caller:
        await caller.say("EHLO r.example")
        assert (await caller.say("MAIL FROM:<> SIZE=10485761")).startswith("552")
        assert (await caller.say("MAIL FROM:<> SIZE=99999999999999999999")).startswith("552")
        assert (await caller.say("MAIL FROM:<> SIZE=10485760")).startswith("250")


@pytest.mark.parametrize("filler", [b"x", b"\r\n", b"\n"])
async def test_a_mail_that_does_not_end_is_cut_off_at_the_limit(away: Receiving, filler: bytes) -> None:
    limits = Limits(patience=Patience(bounds=Bounds(largest=200_000)))
    async with listening(away, limits) as port, greeted(port) as caller:
        await caller.begin(some_path())
        caller.writer.write(filler * 300_000)
        assert (await caller.ends())[:3] in ("552", "")


async def test_a_bounce_with_a_large_copy_of_the_mail_is_read_from_its_beginning(back: Back) -> None:
    path = back.return_path()
    raw = back.bounce(path).replace(b"\r\n--B--", b"\r\n" + b"x" * 5_000_000 + b"\r\n--B--")
    async with listening(back.receiving) as port, greeted(port) as relay:
        await relay.begin(path)
        assert (await relay.say(raw + b".")).startswith("250")
    assert await back.state() == BOUNCED


async def test_one_return_path_gets_so_many_mails_and_other_ones_go_on(away: Receiving) -> None:
    path = some_path()
    async with listening(away) as port, greeted(port) as relay:
        await relay.say("EHLO r.example")
        for _ in range(20):
            for line in ("MAIL FROM:<>", f"RCPT TO:<{path}>", "DATA"):
                assert (await relay.say(line))[0] in "23"
            assert (await relay.say(b"Subject: hello\r\n\r\nhello\r\n.")).startswith("250")
        await relay.say("MAIL FROM:<>")
        assert (await relay.say(f"RCPT TO:<{path}>")).startswith("552 5.2.2")


async def test_nothing_that_comes_in_is_ever_answered_with_a_mail(back: Back) -> None:
    path = back.return_path()
    async with listening(back.receiving) as port, greeted(port) as relay:
        await relay.begin(path)
        assert (await relay.say(b"From: <>\r\nSubject: Hello\r\n\r\nAre you there?\r\n.")).startswith("250")
        await relay.say("MAIL FROM:<someone@example.com>")
        await relay.say(f"RCPT TO:<{path}>")
        await relay.say("DATA")
        assert (await relay.say(back.bounce(path) + b".")).startswith("250")
    async with back.database.hot() as pg:
        assert await pg.fetchval("SELECT count(*) FROM outgoing") == 1


async def test_what_cannot_be_kept_is_to_be_sent_again(back: Back, away: Receiving) -> None:
    path, raw = back.return_path(), back.bounce(back.return_path())
    for receiving, code in ((away, "451"), (back.receiving, "250")):
        async with listening(receiving) as port, greeted(port) as relay:
            await relay.begin(path)
            assert (await relay.say(raw + b".")).startswith(code)
    assert await back.state() == BOUNCED
