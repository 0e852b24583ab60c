"""Whatever a relay does at whatever stage, the attempt ends in the verdict that is true."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as changed

from services.email.smtp import SmtpProvider
from shared.content import InappContent
from shared.job import JobReason
from shared.relay import Relay
from shared.tenant import EmailSender
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict
from tests.fakes.parcels import email_parcel
from tests.fakes.smtp import SmtpSink
from tests.fakes.smtp_script import Act, Drop, Raw, Reply, Stall

ENOUGH = timedelta(seconds=20)
SHORT = timedelta(seconds=0.6)
LONG_ENOUGH_TO_HAND_OVER = timedelta(seconds=3)
BEFORE_THE_DOT = ("connect", "helo", "mail", "rcpt", "data")


@pytest.fixture
async def sink() -> AsyncIterator[SmtpSink]:
    started = await SmtpSink().start()
    yield started
    await started.close()


async def _send(sink: SmtpSink, timeout: timedelta = ENOUGH) -> tuple[Verdict, bool]:
    """The verdict on one mail, and whether the attempt says that it was handed over."""
    provider = SmtpProvider(Relay("127.0.0.1", sink.port), pool_size=1, attempt_timeout=timeout)
    parcel = email_parcel()
    verdict = await provider.send(parcel)
    await provider.close()
    return verdict, parcel.progress.handed_over


async def test_a_mail_that_is_taken_is_delivered_under_the_relays_own_name(sink: SmtpSink) -> None:
    verdict, _ = await _send(sink)
    assert verdict == Delivered(provider_id="queued as 1", code="250")
    mail = sink.mails[0]
    assert mail.envelope_from == "hello@campus.example"
    assert mail.envelope_to == ("bob@inbox.example",)


@pytest.mark.parametrize("stage", BEFORE_THE_DOT)
@pytest.mark.parametrize("act", [Drop(), Stall(), Raw(b"what?\r\n"), Raw(b"999 surprise\r\n")])
async def test_before_the_final_dot_silence_means_that_it_surely_did_not_go_out(
    sink: SmtpSink, stage: str, act: Act
) -> None:
    sink.script.always(stage, act)
    verdict, handed_over = await _send(sink, SHORT)
    assert isinstance(verdict, NoVerdict)
    assert not verdict.handed_over
    assert not handed_over
    assert not sink.mails


async def test_a_drop_in_the_middle_of_the_mail_is_not_a_hand_over(sink: SmtpSink) -> None:
    sink.script.always("body", Drop())
    provider = SmtpProvider(Relay("127.0.0.1", sink.port), pool_size=1, attempt_timeout=ENOUGH)
    parcel = email_parcel(text="x" * 40 + "\n" * 8_000_000)
    verdict = await provider.send(parcel)
    assert isinstance(verdict, NoVerdict)
    assert not verdict.handed_over
    assert not parcel.progress.handed_over


@pytest.mark.parametrize("act", [Drop(), Stall(), Raw(b"what?\r\n"), Raw(b"354 go on\r\n")])
async def test_after_the_final_dot_silence_means_that_it_may_have_gone_out(sink: SmtpSink, act: Act) -> None:
    sink.script.always("eod", act)
    verdict, handed_over = await _send(sink, LONG_ENOUGH_TO_HAND_OVER)
    assert isinstance(verdict, NoVerdict)
    assert verdict.handed_over
    assert handed_over
    assert len(sink.mails) == 1


async def test_a_relay_that_is_not_there_gives_no_verdict(sink: SmtpSink) -> None:
    await sink.close()
    verdict, handed_over = await _send(sink)
    assert isinstance(verdict, NoVerdict)
    assert not verdict.handed_over
    assert verdict.code == "unreachable"
    assert not handed_over


@pytest.mark.parametrize(
    ("stage", "reply", "expected"),
    [
        ("connect", Reply(421, "4.3.2 too busy"), NoVerdict(False, refused=True)),
        ("connect", Reply(554, "no service for you"), SenderBlocked("relay")),
        ("helo", Reply(451, "later"), NoVerdict(False, refused=True)),
        ("helo", Reply(550, "bad name"), SenderBlocked("relay")),
        ("mail", Reply(451, "4.3.0 later"), NoVerdict(False, refused=True)),
        ("mail", Reply(550, "5.1.8 bad sender"), SenderBlocked("sender")),
        ("mail", Reply(530, "5.7.0 authentication required"), SenderBlocked("relay")),
        ("mail", Reply(552, "5.3.4 message size exceeds fixed limit"), Rejected(JobReason.PAYLOAD_TOO_LARGE)),
        ("rcpt", Reply(450, "4.7.1 greylisted"), Deferred()),
        ("rcpt", Reply(421, "4.3.2 shutting down"), NoVerdict(False, refused=True)),
        ("rcpt", Reply(550, "5.1.1 no such user"), Rejected(target_dead=True)),
        ("rcpt", Reply(552, "5.2.2 mailbox full"), Deferred()),
        ("rcpt", Reply(554, "5.7.1 relay access denied"), SenderBlocked("relay")),
        ("rcpt", Reply(550, "5.7.1 SPF check failed"), SenderBlocked("sender")),
        ("data", Reply(452, "4.3.1 out of disk"), Deferred()),
        ("data", Reply(250, "ok"), NoVerdict(False)),
        ("data", Reply(554, "5.5.1 no valid recipients"), Rejected()),
        ("eod", Reply(451, "4.7.1 later"), Deferred()),
        ("eod", Reply(421, "4.3.0 later"), NoVerdict(False, refused=True)),
        ("eod", Reply(554, "5.6.0 malformed"), Rejected()),
        ("eod", Reply(554, "5.3.4 too big"), Rejected(JobReason.PAYLOAD_TOO_LARGE)),
        ("eod", Reply(550, "5.7.26 fails DMARC"), SenderBlocked("sender")),
    ],
)
async def test_each_answer_at_each_stage_has_its_verdict(
    sink: SmtpSink, stage: str, reply: Reply, expected: Verdict
) -> None:
    sink.script.always(stage, reply)
    verdict, _ = await _send(sink)
    assert replace(verdict, code=None, error=None) == expected
    assert verdict.code == str(reply.code)
    assert verdict.error == f"at {stage}: {reply.text}"
    assert not sink.mails


async def test_a_reply_of_several_lines_is_read_as_one(sink: SmtpSink) -> None:
    sink.script.always("rcpt", Reply(550, "5.1.1 There is nobody\n5.1.1 of that name here"))
    verdict, _ = await _send(sink)
    assert isinstance(verdict, Rejected)
    assert verdict.error == "at rcpt: 5.1.1 There is nobody 5.1.1 of that name here"


@pytest.mark.parametrize("stage", ["connect", "mail", "eod"])
async def test_a_long_winded_yes_is_a_yes(sink: SmtpSink, stage: str) -> None:
    begin = 220 if stage == "connect" else 250
    sink.script.always(stage, Raw(f"{begin}-ok\r\n{begin} ".encode() + b"x\xe9" * 5_000 + b"\r\n"))
    verdict, _ = await _send(sink)
    assert isinstance(verdict, Delivered)


@pytest.mark.parametrize("stage", ["connect", "mail", "eod"])
@pytest.mark.parametrize("words", [b"HTTP/1.1 400 Bad Request\r\n", b"250-" + b"x" * 100_000])
async def test_what_is_no_reply_is_called_so_at_every_stage(sink: SmtpSink, stage: str, words: bytes) -> None:
    sink.script.always(stage, Raw(words))
    verdict, _ = await _send(sink)
    assert isinstance(verdict, NoVerdict)
    assert verdict.code == "malformed_reply"
    assert verdict.error is not None
    assert verdict.error.startswith(
        (f"at {stage}: Malformed SMTP response line: HTTP", f"at {stage}: Response too long")
    )


async def test_a_relay_that_only_knows_helo_still_gets_the_mail(sink: SmtpSink) -> None:
    sink.script.once("helo", Reply(502, "no such command"), None)
    verdict, _ = await _send(sink)
    assert isinstance(verdict, Delivered)
    assert sink.verbs(1)[:2] == ["EHLO", "HELO"]


async def test_a_mail_larger_than_the_relay_says_it_takes_is_not_even_begun(sink: SmtpSink) -> None:
    sink.size_limit = 500
    verdict, _ = await _send(sink)
    assert isinstance(verdict, Rejected)
    assert verdict.reason is JobReason.PAYLOAD_TOO_LARGE
    assert "MAIL" not in sink.verbs(1)


async def test_a_refusal_in_the_middle_of_a_large_mail_is_read(sink: SmtpSink) -> None:
    sink.script.always("body", Reply(552, "5.3.4 message size exceeds limit"))
    provider = SmtpProvider(Relay("127.0.0.1", sink.port), pool_size=1, attempt_timeout=ENOUGH)
    verdict = await provider.send(email_parcel(text="x" * 40 + "\n" * 8_000_000))
    await provider.close()
    assert isinstance(verdict, Rejected)
    assert verdict.reason is JobReason.PAYLOAD_TOO_LARGE


@pytest.mark.parametrize(
    ("sender", "content", "expected"),
    [
        (None, {}, SenderBlocked("sender")),
        (EmailSender("hello"), {}, SenderBlocked("sender")),
        (EmailSender("hello@campus.example"), {"to_address": "bob, eve@x.example"}, Rejected()),
        (EmailSender("hello@campus.example"), {"to_address": "bob@x.example\r\nRCPT TO:<eve@x.example>"}, Rejected()),
        (EmailSender("hello@campus.example"), {"to_address": "jürgen@x.example"}, Rejected()),
        (EmailSender("hello@campus.example"), {"reply_to": "nobody"}, Rejected()),
    ],
)
async def test_a_mail_that_cannot_be_made_never_reaches_the_relay(
    sink: SmtpSink, sender: EmailSender | None, content: dict[str, str], expected: Verdict
) -> None:
    provider = SmtpProvider(Relay("127.0.0.1", sink.port), pool_size=1, attempt_timeout=ENOUGH)
    verdict = await provider.send(email_parcel(sender, **content))
    assert replace(verdict, code=None, error=None) == expected
    assert not sink.connection_count


async def test_content_of_another_channel_is_rejected(sink: SmtpSink) -> None:
    provider = SmtpProvider(Relay("127.0.0.1", sink.port), pool_size=1, attempt_timeout=ENOUGH)
    verdict = await provider.send(changed(email_parcel(), content=InappContent("t", "b", "en")))
    assert isinstance(verdict, Rejected)


async def test_the_same_job_has_the_same_message_id_at_every_attempt(sink: SmtpSink) -> None:
    provider = SmtpProvider(Relay("127.0.0.1", sink.port), pool_size=1, attempt_timeout=ENOUGH)
    sink.script.once("eod", Drop(), None)
    parcel = email_parcel()
    first = await provider.send(parcel)
    second = await provider.send(changed(parcel, attempt=2, possible_duplicate=True))
    await provider.close()
    assert isinstance(first, NoVerdict)
    assert isinstance(second, Delivered)
    assert [mail.message_id for mail in sink.mails] == [f"<{parcel.stable_id.hex}@campus.example>"] * 2
