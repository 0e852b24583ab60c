"""Encryption and login are as the relay's URL says, or no mail goes out."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from services.email.smtp import SmtpProvider
from shared.relay import Relay, Security
from shared.verdict import Delivered, NoVerdict, SenderBlocked, Verdict
from tests.fakes.certificates import server_context, trusting_context, write_certificate
from tests.fakes.parcels import email_parcel
from tests.fakes.smtp import SmtpSink
from tests.fakes.smtp_script import Drop, Reply

Start = Callable[[SmtpSink], Awaitable[SmtpSink]]
ENOUGH = timedelta(seconds=20)
LOGIN = ("campus", "p@ss:wörd")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    sinks: list[SmtpSink] = []

    async def start_one(sink: SmtpSink) -> SmtpSink:
        sinks.append(sink)
        return await sink.start()

    yield start_one
    for sink in sinks:
        await sink.close()


async def _send(relay: Relay, trusted: Path | None = None) -> Verdict:
    tls = None if trusted is None else trusting_context(trusted)
    provider = SmtpProvider(relay, pool_size=1, attempt_timeout=ENOUGH, tls=tls)
    verdict = await provider.send(email_parcel())
    await provider.close()
    return verdict


async def test_starttls_encrypts_before_anything_is_said_about_the_mail(start: Start, certificate: Path) -> None:
    sink = await start(SmtpSink(starttls=server_context(certificate)))
    verdict = await _send(Relay("127.0.0.1", sink.port, Security.STARTTLS), certificate)
    assert isinstance(verdict, Delivered)
    assert sink.mails[0].encrypted
    assert sink.verbs(1)[:4] == ["EHLO", "STARTTLS", "EHLO", "MAIL"]


async def test_implicit_tls_encrypts_from_the_first_byte(start: Start, certificate: Path) -> None:
    sink = await start(SmtpSink(implicit=server_context(certificate)))
    verdict = await _send(Relay("localhost", sink.port, Security.IMPLICIT), certificate)
    assert isinstance(verdict, Delivered)
    assert sink.mails[0].encrypted


async def test_a_relay_without_starttls_gets_nothing_where_it_is_asked_for(start: Start) -> None:
    sink = await start(SmtpSink())
    verdict = await _send(Relay("127.0.0.1", sink.port, Security.STARTTLS, *LOGIN))
    assert verdict == SenderBlocked("relay", code="setup", error="at helo: the relay does not offer STARTTLS")
    assert sink.verbs(1) == ["EHLO"]


@pytest.mark.parametrize("security", [Security.STARTTLS, Security.IMPLICIT])
async def test_a_certificate_nobody_vouches_for_blocks_the_relay(
    start: Start, certificate: Path, security: Security
) -> None:
    context = server_context(certificate)
    sink = await start(SmtpSink(starttls=context) if security is Security.STARTTLS else SmtpSink(implicit=context))
    verdict = await _send(Relay("127.0.0.1", sink.port, security))
    assert isinstance(verdict, SenderBlocked)
    assert verdict.part == "relay"
    assert verdict.code == "tls"
    assert "the certificate does not verify: self-signed certificate" in str(verdict.error)
    assert not sink.mails


async def test_a_certificate_for_another_name_blocks_the_relay(start: Start, tmp_path: Path) -> None:
    other = write_certificate(tmp_path, "elsewhere.example")
    sink = await start(SmtpSink(starttls=server_context(other)))
    verdict = await _send(Relay("localhost", sink.port, Security.STARTTLS), other)
    assert isinstance(verdict, SenderBlocked)
    assert "Hostname mismatch" in str(verdict.error)


async def test_tls_spoken_to_a_plain_port_blocks_the_relay(start: Start) -> None:
    sink = await start(SmtpSink())
    verdict = await _send(Relay("127.0.0.1", sink.port, Security.IMPLICIT))
    assert isinstance(verdict, SenderBlocked)
    assert verdict.code == "tls"


async def test_a_connection_lost_in_the_handshake_is_no_verdict(start: Start, certificate: Path) -> None:
    sink = await start(SmtpSink(starttls=server_context(certificate)))
    sink.script.always("starttls", Drop())
    verdict = await _send(Relay("127.0.0.1", sink.port, Security.STARTTLS), certificate)
    assert isinstance(verdict, NoVerdict)
    assert not verdict.handed_over


async def test_tls_that_is_out_of_order_for_now_is_no_verdict(start: Start, certificate: Path) -> None:
    sink = await start(SmtpSink(starttls=server_context(certificate)))
    sink.script.always("starttls", Reply(454, "4.7.0 TLS not available due to temporary reason"))
    verdict = await _send(Relay("127.0.0.1", sink.port, Security.STARTTLS), certificate)
    assert isinstance(verdict, NoVerdict)
    assert not verdict.handed_over


async def test_the_login_is_given_where_the_relay_asks_for_one(start: Start) -> None:
    sink = await start(SmtpSink(login=LOGIN))
    assert isinstance(await _send(Relay("127.0.0.1", sink.port, Security.NONE, *LOGIN)), Delivered)
    assert sink.verbs(1)[:3] == ["EHLO", "AUTH", "MAIL"]


async def test_a_wrong_password_is_tried_once_and_blocks_the_relay(start: Start) -> None:
    sink = await start(SmtpSink(login=LOGIN))
    verdict = await _send(Relay("127.0.0.1", sink.port, Security.NONE, "campus", "wrong"))
    assert verdict == SenderBlocked("relay", code="535", error="at auth: 5.7.8 credentials invalid")
    assert sink.verbs(1) == ["EHLO", "AUTH"]


async def test_a_login_that_is_throttled_is_no_verdict(start: Start) -> None:
    sink = await start(SmtpSink(login=LOGIN))
    sink.script.always("auth", Reply(454, "4.7.0 too many login attempts"))
    verdict = await _send(Relay("127.0.0.1", sink.port, Security.NONE, *LOGIN))
    assert isinstance(verdict, NoVerdict)
    assert not verdict.handed_over


async def test_a_relay_that_takes_no_login_where_we_have_one_is_blocked(start: Start) -> None:
    sink = await start(SmtpSink())
    verdict = await _send(Relay("127.0.0.1", sink.port, Security.NONE, *LOGIN))
    assert isinstance(verdict, SenderBlocked)
    assert verdict.code == "setup"


@pytest.mark.parametrize("security", [Security.NONE, Security.STARTTLS, Security.IMPLICIT])
async def test_a_large_mail_arrives_whole_whatever_the_encryption(
    start: Start, certificate: Path, security: Security
) -> None:
    context = server_context(certificate)
    sinks = {
        Security.NONE: SmtpSink(),
        Security.STARTTLS: SmtpSink(starttls=context),
        Security.IMPLICIT: SmtpSink(implicit=context),
    }
    sink = await start(sinks[security])
    tls = trusting_context(certificate)
    relay = Relay("127.0.0.1", sink.port, security)
    provider = SmtpProvider(relay, pool_size=1, attempt_timeout=timedelta(seconds=60), tls=tls)
    text = ".\r\n..dots\r\nand more\r\n" * 200_000
    assert isinstance(await provider.send(email_parcel(text=text)), Delivered)
    assert isinstance(await provider.send(email_parcel(text="small\n")), Delivered)
    await provider.close()
    large, small = sink.mails
    assert large.message.get_body(("plain",)).get_content() == text  # type: ignore[union-attr]
    assert small.message.get_body(("plain",)).get_content() == "small\r\n"  # type: ignore[union-attr]
    assert large.connection == small.connection == 1
