"""Connections are kept, shared, replaced when they died, and never more than allowed."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from services.email.pool import Pool
from services.email.smtp import SmtpProvider
from shared.relay import Relay
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked
from tests.fakes.parcels import email_parcel
from tests.fakes.smtp import SmtpSink
from tests.fakes.smtp_script import Act, Drop, Reply, Stall

ENOUGH = timedelta(seconds=20)


@pytest.fixture
async def sink() -> AsyncIterator[SmtpSink]:
    started = await SmtpSink().start()
    yield started
    await started.close()


def _provider(sink: SmtpSink, size: int = 1, timeout: timedelta = ENOUGH, **limits: object) -> SmtpProvider:
    relay = Relay("127.0.0.1", sink.port)
    return SmtpProvider(relay, pool_size=size, attempt_timeout=timeout, **limits)  # type: ignore[arg-type]


async def test_one_connection_carries_mail_after_mail(sink: SmtpSink) -> None:
    provider = _provider(sink)
    for _ in range(5):
        assert isinstance(await provider.send(email_parcel()), Delivered)
    await provider.close()
    await sink.wait_until(lambda: sink.open_count == 0)
    assert sink.verbs(1) == ["EHLO", *["MAIL", "RCPT", "DATA"] * 5, "QUIT"]


async def test_a_connection_ends_after_as_many_mails_as_allowed(sink: SmtpSink) -> None:
    provider = _provider(sink, most_mails=2)
    for _ in range(5):
        assert isinstance(await provider.send(email_parcel()), Delivered)
    await provider.close()
    assert [mail.connection for mail in sink.mails] == [1, 1, 2, 2, 3]


async def test_many_sends_at_once_share_as_many_connections_as_allowed(sink: SmtpSink) -> None:
    provider = _provider(sink, size=3)
    verdicts = await asyncio.gather(*(provider.send(email_parcel()) for _ in range(40)))
    assert all(isinstance(verdict, Delivered) for verdict in verdicts)
    assert len({mail.message_id for mail in sink.mails}) == 40
    assert sink.connection_count == sink.most_at_once == 3
    await provider.close()


async def test_who_finds_no_free_connection_in_time_is_told_so() -> None:
    pool = Pool(1)
    now = asyncio.get_running_loop().time
    async with pool.slot(now() + 20):
        with pytest.raises(TimeoutError):
            async with pool.slot(now() + 0.01):
                pass
    async with pool.slot(now() + 20):
        pass


async def test_an_idle_connection_is_closed_by_itself(sink: SmtpSink) -> None:
    provider = _provider(sink, longest_idle=timedelta(milliseconds=50))
    assert isinstance(await provider.send(email_parcel()), Delivered)
    await sink.wait_until(lambda: sink.open_count == 0)
    assert sink.verbs(1)[-1] == "QUIT"
    await provider.close()


async def test_a_kept_connection_that_the_relay_closed_is_replaced_unnoticed(sink: SmtpSink) -> None:
    provider = _provider(sink)
    await provider.send(email_parcel())
    sink.cut()
    await sink.wait_until(lambda: sink.open_count == 0)
    assert isinstance(await provider.send(email_parcel()), Delivered)
    assert [mail.connection for mail in sink.mails] == [1, 2]
    await provider.close()


@pytest.mark.parametrize("act", [Drop(), Stall(), Reply(421, "4.4.2 idle for too long")])
async def test_a_kept_connection_that_dies_at_mail_is_replaced_within_the_attempt(sink: SmtpSink, act: Act) -> None:
    provider = _provider(sink, timeout=timedelta(seconds=10))
    await provider.send(email_parcel())
    sink.script.once("mail", act)
    assert isinstance(await provider.send(email_parcel()), Delivered)
    assert sink.verbs(1)[-1] == "MAIL"
    assert [mail.connection for mail in sink.mails] == [1, 2]
    await provider.close()


async def test_a_relay_that_restarts_between_two_mails_is_found_again(sink: SmtpSink) -> None:
    provider = _provider(sink)
    await provider.send(email_parcel())
    await sink.close()
    down = await provider.send(email_parcel())
    await sink.start(sink.port)
    up = await provider.send(email_parcel())
    assert down == NoVerdict(False, code="unreachable", error=down.error)
    assert isinstance(up, Delivered)
    await provider.close()


async def test_a_refused_mail_leaves_a_connection_on_which_the_next_one_goes_out(sink: SmtpSink) -> None:
    sink.script.once("rcpt", Reply(450, "4.7.1 greylisted"))
    provider = _provider(sink)
    assert isinstance(await provider.send(email_parcel()), Deferred)
    assert isinstance(await provider.send(email_parcel()), Delivered)
    assert sink.verbs(1) == ["EHLO", "MAIL", "RCPT", "RSET", "MAIL", "RCPT", "DATA"]
    await provider.close()


async def test_a_used_connection_that_says_not_now_is_not_asked_again(sink: SmtpSink) -> None:
    provider = _provider(sink)
    await provider.send(email_parcel())
    sink.script.once("rcpt", Reply(452, "4.5.3 too many recipients in this session"))
    assert isinstance(await provider.send(email_parcel()), Deferred)
    assert isinstance(await provider.send(email_parcel()), Delivered)
    assert [mail.connection for mail in sink.mails] == [1, 2]
    await provider.close()


async def test_a_used_connection_that_knows_no_such_recipient_is_used_on(sink: SmtpSink) -> None:
    provider = _provider(sink)
    await provider.send(email_parcel())
    sink.script.once("rcpt", Reply(550, "5.1.1 no such user"))
    assert isinstance(await provider.send(email_parcel()), Rejected)
    assert isinstance(await provider.send(email_parcel()), Delivered)
    assert sink.connection_count == 1
    await provider.close()


async def test_a_connection_that_cannot_be_reset_is_replaced(sink: SmtpSink) -> None:
    sink.script.once("eod", Reply(451, "4.3.0 later"))
    sink.script.once("rset", Reply(500, "what?"))
    provider = _provider(sink)
    assert isinstance(await provider.send(email_parcel()), Deferred)
    assert isinstance(await provider.send(email_parcel()), Delivered)
    assert sink.mails[-1].connection == 2
    await provider.close()


@pytest.mark.parametrize("reply", [Reply(452, "4.5.3 enough for one session"), Reply(554, "5.7.0 too many messages")])
async def test_a_connection_that_has_had_its_share_of_mails_is_replaced_and_nobody_is_blocked(
    sink: SmtpSink, reply: Reply
) -> None:
    provider = _provider(sink)
    await provider.send(email_parcel())
    sink.script.once("mail", reply)
    assert isinstance(await provider.send(email_parcel()), Delivered)
    assert [mail.connection for mail in sink.mails] == [1, 2]
    await provider.close()


async def test_a_sender_that_a_fresh_connection_refuses_too_is_refused(sink: SmtpSink) -> None:
    provider = _provider(sink)
    await provider.send(email_parcel())
    sink.script.always("mail", Reply(550, "5.1.8 bad sender"))
    assert isinstance(await provider.send(email_parcel()), SenderBlocked)
    assert sink.connection_count == 2
    await provider.close()


async def test_a_cancelled_send_says_how_far_it_came_and_frees_its_connection(sink: SmtpSink) -> None:
    sink.script.once("eod", Stall())
    provider = _provider(sink)
    parcel = email_parcel()
    cut_off = asyncio.create_task(provider.send(parcel))
    await sink.wait_for_mails(1)
    cut_off.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cut_off
    assert parcel.progress.handed_over
    assert isinstance(await provider.send(email_parcel()), Delivered)
    await sink.wait_until(lambda: sink.open_count == 1)
    await provider.close()


async def test_a_closed_provider_can_send_again(sink: SmtpSink) -> None:
    provider = _provider(sink)
    await provider.send(email_parcel())
    await provider.close()
    assert isinstance(await provider.send(email_parcel()), Delivered)
    await provider.close()
