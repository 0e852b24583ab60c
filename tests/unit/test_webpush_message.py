"""What leaves for a browser: encrypted as RFC 8291 has it, signed as RFC 8292 has it, never over the limit."""

import base64
import time
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import http_ece  # type: ignore[import-untyped]  # it ships no types
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from services.push.message import LONGEST_TTL, Letter
from services.push.signers import contact_of
from services.push.webpush import LARGEST_BODY, MOST_TO_BROWSER, encrypt, write_headers, write_payload
from shared.content import Link, PushContent
from shared.errors import VapidKeyUnusable
from shared.subscription import key_problems, plain_keys
from shared.tenant import EmailSender, PushSender, Senders, Tenant, WebPush
from shared.vapid import new_vapid_key, parse_vapid_key, read_base64url, write_base64url
from tests.fakes.webpush import Browser

CONTENT = PushContent("Booked", "See you", "en")
BROWSER = Browser("https://web.push.apple.com/a")
P256, P239 = (bytes.fromhex(f"2a8648ce3d0301{last}") for last in ("07", "04"))
"""Two curves as DER names them; cryptography has none of the second."""
RFC8291_PRIVATE = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
RFC8291_AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
RFC8291_BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl"
    "95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)


def letter(content: PushContent = CONTENT) -> Letter:
    return Letter(content, uuid4(), 3)


def test_the_decrypting_peer_reads_the_example_of_the_rfc() -> None:
    private = ec.derive_private_key(int.from_bytes(read_base64url(RFC8291_PRIVATE)), ec.SECP256R1())
    message = http_ece.decrypt(
        read_base64url(RFC8291_BODY), private_key=private, auth_secret=read_base64url(RFC8291_AUTH), version="aes128gcm"
    )
    assert message == b"When I grow up, I want to be a watermelon"


def test_two_messages_to_one_browser_have_nothing_in_common() -> None:
    one, other = encrypt(b'{"a": 1}', BROWSER.keys), encrypt(b'{"a": 1}', BROWSER.keys)
    assert one[:16] != other[:16]
    assert one[21:] != other[21:]
    assert BROWSER.read(one) == BROWSER.read(other) == {"a": 1}


def test_the_largest_message_fills_the_largest_body() -> None:
    assert len(encrypt(b"x" * MOST_TO_BROWSER, BROWSER.keys)) == LARGEST_BODY


@pytest.mark.parametrize(
    ("ttl", "lives", "seconds"),
    [
        (None, timedelta(hours=1), 3600),
        (timedelta(minutes=5), timedelta(hours=1), 300),
        (timedelta(days=2), timedelta(hours=1), 3600),
        (None, timedelta(days=300), int(LONGEST_TTL.total_seconds())),
        (None, timedelta(seconds=-5), 1),
        (timedelta(milliseconds=500), timedelta(hours=1), 1),
    ],
)
def test_a_message_lives_as_long_as_rule_and_job_both_allow(
    ttl: timedelta | None, lives: timedelta, seconds: int
) -> None:
    assert write_headers(letter(replace(CONTENT, ttl=ttl)), lives)["TTL"] == str(seconds)


def test_the_topic_is_one_that_every_service_takes() -> None:
    topic = write_headers(letter(), timedelta(hours=1))["Topic"]
    assert len(topic) == 32
    assert topic.isalnum()


def test_a_link_into_an_app_is_not_for_browsers() -> None:
    content = replace(CONTENT, link=Link("https://campus.example/b", "See", "campus://b"))
    assert b'"link":"https://campus.example/b"' in write_payload(letter(content))
    assert b"campus://" not in write_payload(letter(content))


def test_what_is_signed_is_for_one_origin_and_half_a_day() -> None:
    key = new_vapid_key()
    scheme, signed, public = key.authorization("https://web.push.apple.com", "mailto:ops@campus.example").split(" ")
    assert (scheme, public) == ("vapid", f"k={key.public}")
    point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), read_base64url(key.public))
    token = signed.removeprefix("t=").removesuffix(",")
    claims = jwt.decode(token, point, algorithms=["ES256"], audience="https://web.push.apple.com")
    assert claims["sub"] == "mailto:ops@campus.example"
    assert 0 < claims["exp"] - time.time() <= 24 * 3600
    assert jwt.get_unverified_header(token) == {"typ": "JWT", "alg": "ES256"}


def test_a_key_comes_back_from_how_it_is_kept_and_from_pem() -> None:
    key = new_vapid_key()
    assert parse_vapid_key(key.secret).public == key.public
    private = ec.derive_private_key(int.from_bytes(read_base64url(key.secret.decode())), ec.SECP256R1())
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    assert parse_vapid_key(pem).public == key.public
    assert key.secret.decode() not in repr(key)


@pytest.mark.parametrize(
    "secret",
    [
        b"",
        b"hunter2",
        b"A" * 43,
        b"\xff\xfe",
        b"-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----",
        ec.generate_private_key(ec.SECP384R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    ],
    ids=["nothing", "a password", "base64", "bytes", "no PEM", "another curve"],
)
def test_what_is_no_vapid_key_is_refused_without_being_repeated(secret: bytes) -> None:
    with pytest.raises(VapidKeyUnusable) as raised:
        parse_vapid_key(secret)
    assert "hunter2" not in str(raised.value)


def test_a_key_on_a_curve_that_nobody_knows_is_refused() -> None:
    der = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    text = base64.b64encode(der.replace(P256, P239))
    with pytest.raises(VapidKeyUnusable):
        parse_vapid_key(b"-----BEGIN PRIVATE KEY-----\n" + text + b"\n-----END PRIVATE KEY-----")


def test_keys_are_kept_the_one_way_however_they_were_written() -> None:
    keys = BROWSER.keys
    ordinary = [base64.b64encode(read_base64url(text)).decode() for text in (keys.p256dh, keys.auth)]
    assert list(key_problems(*ordinary)) == []
    assert plain_keys(*ordinary) == keys


@pytest.mark.parametrize(
    ("p256dh", "auth", "wrong"),
    [
        ("", "", ["p256dh", "auth"]),
        ("!", "!", ["p256dh", "auth"]),
        ("é", "日本", ["p256dh", "auth"]),
        (BROWSER.keys.auth, BROWSER.keys.p256dh, ["p256dh", "auth"]),
        (BROWSER.keys.p256dh, BROWSER.keys.auth[:-2], ["auth"]),
        (write_base64url(b"\x04" + bytes(64)), BROWSER.keys.auth, ["p256dh"]),
        (write_base64url(b"\x02" + bytes(64)), BROWSER.keys.auth, ["p256dh"]),
        (write_base64url(b"\x04" + b"\xff" * 64), BROWSER.keys.auth, ["p256dh"]),
    ],
    ids=["empty", "no base64", "not ASCII", "swapped", "short auth", "zero point", "compressed", "off the curve"],
)
def test_keys_that_are_none_are_named(p256dh: str, auth: str, wrong: list[str]) -> None:
    assert [name for name, _ in key_problems(p256dh, auth)] == wrong


def test_push_services_may_write_to_whoever_the_file_names_first() -> None:
    tenant = Tenant("campus", "Campus", ("en",))
    assert contact_of(tenant) is None
    mailing = replace(tenant, senders=Senders(EmailSender("hello@campus.example", "Campus")))
    assert contact_of(mailing) == "mailto:hello@campus.example"
    assert contact_of(replace(mailing, website="https://campus.example")) == "https://campus.example"
    own = Senders(push=PushSender(webpush=WebPush("mailto:ops@campus.example")))
    assert contact_of(replace(mailing, website="https://campus.example", senders=own)) == "mailto:ops@campus.example"
