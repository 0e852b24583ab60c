"""A relay's URL is read whole, or refused with a sentence that gives no secret away."""

import pytest

from services.email.settings import EmailSettings
from shared.errors import SettingsError
from shared.relay import Relay, Security, parse_relay
from shared.settings.base import load_settings


@pytest.mark.parametrize(
    ("url", "relay"),
    [
        ("smtp://mail.internal", Relay("mail.internal", 25)),
        ("smtp://127.0.0.1:1025", Relay("127.0.0.1", 1025)),
        ("smtp://[::1]:1025/", Relay("::1", 1025)),
        ("smtp+starttls://relay.example", Relay("relay.example", 587, Security.STARTTLS)),
        ("smtps://relay.example", Relay("relay.example", 465, Security.IMPLICIT)),
        ("smtps://a:b@relay.example:2465", Relay("relay.example", 2465, Security.IMPLICIT, "a", "b")),
        ("smtps://a%40x:p%3A%2F%25@relay.example", Relay("relay.example", 465, Security.IMPLICIT, "a@x", "p:/%")),
        ("smtp://a:b@localhost", Relay("localhost", 25, Security.NONE, "a", "b")),
        ("smtp://a:b@127.0.0.2", Relay("127.0.0.2", 25, Security.NONE, "a", "b")),
    ],
)
def test_a_relays_url_is_read_whole(url: str, relay: Relay) -> None:
    assert parse_relay(url) == relay


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("http://relay.example", "begins with smtp://"),
        ("relay.example:25", "begins with smtp://"),
        ("smtp://relay.example:99999", "begins with smtp://"),
        ("smtp://", "names the relay's host"),
        ("smtp://user:hush@", "names the relay's host"),
        ("smtps://relay.example/inbox", "ends with the relay's host and port"),
        ("smtps://relay.example?x=hush", "ends with the relay's host and port"),
        ("smtp://user:hush@relay.example", "would send it unencrypted"),
        ("smtp://user:hush@10.0.0.1", "would send it unencrypted"),
    ],
)
def test_a_url_that_is_no_relay_is_refused_without_repeating_it(url: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        parse_relay(url)
    assert "hush" not in str(caught.value)


def test_the_password_is_in_no_representation() -> None:
    assert "hush" not in repr(parse_relay("smtps://user:hush@relay.example"))


def test_the_settings_name_the_variable_of_a_relay_that_cannot_be() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(EmailSettings, {"WAYBILL_SMTP_URL": "smtp://user:hush@relay.example"})
    assert len(caught.value.mistakes) == 1
    assert caught.value.mistakes[0].startswith("WAYBILL_SMTP_URL must be smtps:// or smtp+starttls://")
    assert "hush" not in caught.value.mistakes[0]


def test_a_lease_too_short_for_two_attempts_is_refused() -> None:
    environ = {"WAYBILL_SMTP_URL": "smtp://localhost", "WAYBILL_EMAIL_LEASE": "60s"}
    with pytest.raises(SettingsError, match="WAYBILL_EMAIL_LEASE"):
        load_settings(EmailSettings, environ)
