"""The real firebase-admin on our own client, against a Firebase on loopback: what it sends, and what answers become."""

import asyncio
import gc
import json
import time
import warnings
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from services.push.connections import ALL_TAKEN
from services.push.fcm import FcmSender, load
from services.push.message import Letter
from shared.content import AndroidStyle, AppleStyle, Link, PushContent, WebStyle
from shared.errors import AccountUnusable
from shared.job import JobReason
from shared.ports import free_ports
from shared.serviceaccount import ServiceAccount, parse_service_account
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict
from tests.factories import until
from tests.fakes.fcm import (
    BAD_TOKEN,
    EMPTY,
    HTML,
    OTHER_PROJECTS_TOKEN,
    TOO_BIG,
    UNAVAILABLE,
    UNREGISTERED,
    Act,
    Drop,
    FcmPeer,
    Hang,
    Refuse,
    Say,
    fcm_peer,
    too_many,
)

CONTENT = PushContent("Linear algebra is booked", "Tue 1 Dec, 15:00 with Ada", "en")
CONNECTIONS = 4


@pytest.fixture
async def peer() -> AsyncIterator[FcmPeer]:
    async with fcm_peer() as running:
        yield running


@pytest.fixture
async def sender(peer: FcmPeer) -> AsyncIterator[FcmSender]:
    sender = make_sender(peer)
    yield sender
    await sender.close()


def make_sender(peer: FcmPeer, within: timedelta = timedelta(seconds=10)) -> FcmSender:
    return FcmSender(connections=CONNECTIONS, within=within, base_url=peer.base_url)


def account(peer: FcmPeer) -> ServiceAccount:
    return parse_service_account(peer.account.text.encode())


def letter(content: PushContent = CONTENT, stable_id: UUID | None = None, unread_count: int = 3) -> Letter:
    return Letter(content, stable_id or uuid4(), unread_count)


async def send(
    sender: FcmSender, account: ServiceAccount, phone: str = "phone", one: Letter | None = None
) -> tuple[Verdict, bool]:
    """The verdict, and whether the body had begun to leave."""
    leaving: list[bool] = []
    sending = asyncio.create_task(sender.send(account, phone, one or letter(), lambda: leaving.append(True)))
    return await sending, bool(leaving)


async def test_a_message_arrives_with_everything_that_was_asked_for(peer: FcmPeer, sender: FcmSender) -> None:
    content = replace(
        CONTENT,
        link=Link("https://campus.example/bookings/bk_42", app="campus://bookings/bk_42"),
        data={"booking_id": "bk_42"},
        badge="unread",
        urgency="high",
        ttl=timedelta(hours=4),
        collapse="reminder-bk_42",
        android=AndroidStyle(channel_id="bookings", icon="ic_booking"),
        apple=AppleStyle(sound="default", thread_id="bookings"),
        web=WebStyle(icon="https://campus.example/static/icon-192.png"),
    )
    stable_id = uuid4()
    began = time.time()
    verdict, left = await send(sender, account(peer), "phone", letter(content, stable_id))
    assert isinstance(verdict, Delivered)
    assert left
    (message,) = peer.rung("phone")
    assert verdict.provider_id == peer.newest(1)[0].name
    expiration = int(message["apns"]["headers"].pop("apns-expiration"))
    assert 0 <= expiration - int(began + 4 * 3600) <= 60
    assert message == {
        "token": "phone",
        "notification": {"title": "Linear algebra is booked", "body": "Tue 1 Dec, 15:00 with Ada"},
        "data": {
            "booking_id": "bk_42",
            "waybill_job": f"job_{stable_id.hex}",
            "waybill_link": "campus://bookings/bk_42",
        },
        "android": {
            "collapse_key": "reminder-bk_42",
            "priority": "high",
            "ttl": "14400s",
            "notification": {
                "tag": stable_id.hex,
                "channel_id": "bookings",
                "icon": "ic_booking",
                "notification_count": 3,
            },
        },
        "apns": {
            "headers": {"apns-collapse-id": stable_id.hex, "apns-priority": "10"},
            "payload": {"aps": {"badge": 3, "sound": "default", "thread-id": "bookings"}},
        },
        "webpush": {
            "headers": {"Topic": stable_id.hex, "Urgency": "high", "TTL": "14400"},
            "notification": {"icon": "https://campus.example/static/icon-192.png", "tag": stable_id.hex},
            "fcm_options": {"link": "https://campus.example/bookings/bk_42"},
        },
    }


async def test_a_plain_message_asks_for_nothing_and_hides_its_repeats(peer: FcmPeer, sender: FcmSender) -> None:
    stable_id = uuid4()
    for _ in range(2):
        await send(sender, account(peer), "phone", letter(stable_id=stable_id))
    first, second = peer.rung("phone")
    assert first == second
    assert first["android"] == {"notification": {"tag": stable_id.hex}}
    assert first["apns"] == {"headers": {"apns-collapse-id": stable_id.hex}}
    assert len(stable_id.hex) <= 32


async def test_a_link_that_browsers_may_not_open_is_left_to_the_app(peer: FcmPeer, sender: FcmSender) -> None:
    content = replace(CONTENT, link=Link("http://127.0.0.1:8080/b"))
    assert isinstance((await send(sender, account(peer), "phone", letter(content)))[0], Delivered)
    (message,) = peer.rung("phone")
    assert "fcm_options" not in message["webpush"]
    assert message["data"]["waybill_link"] == "http://127.0.0.1:8080/b"


async def test_a_message_that_firebase_admin_refuses_to_write_is_rejected(peer: FcmPeer, sender: FcmSender) -> None:
    verdict, left = await send(sender, account(peer), "")
    assert (type(verdict), verdict.code, left) == (Rejected, "no_message", False)
    assert peer.post_count == 0


@pytest.mark.parametrize(
    ("act", "verdict"),
    [
        (UNREGISTERED, Rejected(target_dead=True, code="UNREGISTERED")),
        (BAD_TOKEN, Rejected(target_dead=True, code="INVALID_ARGUMENT")),
        (TOO_BIG, Rejected(JobReason.PAYLOAD_TOO_LARGE, code="INVALID_ARGUMENT")),
        (OTHER_PROJECTS_TOKEN, SenderBlocked("sender", code="SENDER_ID_MISMATCH")),
        (too_many("7"), Deferred(timedelta(seconds=7), code="QUOTA_EXCEEDED")),
        (too_many(), Deferred(code="QUOTA_EXCEEDED")),
        (UNAVAILABLE, NoVerdict(False, code="UNAVAILABLE", refused=True)),
        (
            replace(UNAVAILABLE, headers={"Retry-After": "60"}),
            NoVerdict(False, code="UNAVAILABLE", refused=True, retry_after=timedelta(seconds=60)),
        ),
        (
            Refuse(401, "UNAUTHENTICATED", "", "THIRD_PARTY_AUTH_ERROR"),
            SenderBlocked("sender", "THIRD_PARTY_AUTH_ERROR"),
        ),
        (Say(404, b"<html>not here</html>"), NoVerdict(False, code="HTTP 404", refused=True)),
        (Say(502, b"\xff\xfe\x00"), NoVerdict(False, code="HTTP 502", refused=True)),
        (Say(301, headers={"Location": "http://169.254.169.254/"}), NoVerdict(False, code="HTTP 301", refused=True)),
        (Say(200, b"x" * 1_000_000), NoVerdict(True, code="HTTP 200")),
        (HTML, NoVerdict(True, code="HTTP 200")),
        (EMPTY, NoVerdict(True, code="HTTP 200")),
        (Drop(), NoVerdict(True, code="dropped")),
    ],
)
async def test_each_answer_is_one_post_and_one_verdict(
    peer: FcmPeer, sender: FcmSender, act: Act, verdict: Verdict
) -> None:
    peer.always("phone", act)
    got, left = await send(sender, account(peer))
    assert replace(got, error=None) == verdict
    assert left
    assert peer.post_count == 1
    # Nothing of it stays with the connections.
    for token in [f"other-{n}" for n in range(CONNECTIONS + 1)]:
        assert isinstance((await send(sender, account(peer), token))[0], Delivered)


async def test_a_dropped_or_silent_peer_before_reading_may_still_have_got_it(peer: FcmPeer) -> None:
    sender = make_sender(peer, timedelta(seconds=1))
    await send(sender, account(peer), "warm")
    for act, code in ((Drop(), "dropped"), (Hang(), "timeout")):
        peer.before_reading = act
        verdict, left = await send(sender, account(peer))
        assert (verdict, left) == (NoVerdict(True, code, verdict.error), True)
    await sender.close()


async def test_a_firebase_that_takes_no_connection_was_told_nothing(peer: FcmPeer) -> None:
    (port,) = free_ports(1)
    sender = FcmSender(connections=CONNECTIONS, within=timedelta(seconds=10), base_url=f"http://127.0.0.1:{port}")
    verdict, left = await send(sender, account(peer))
    assert isinstance(verdict, NoVerdict)
    assert (verdict.handed_over, verdict.code, left) == (False, "connect", False)
    await sender.close()


async def test_an_outage_leaks_no_connection_and_is_asked_once_a_message(peer: FcmPeer, sender: FcmSender) -> None:
    peer.always("phone", UNAVAILABLE)
    verdicts = [(await send(sender, account(peer)))[0] for _ in range(30)]
    assert all(isinstance(verdict, NoVerdict) for verdict in verdicts)
    assert peer.post_count == 30
    peer.always("phone", None)
    together = await asyncio.gather(*(send(sender, account(peer)) for _ in range(3 * CONNECTIONS)))
    assert all(isinstance(verdict, Delivered) for verdict, _ in together)
    assert peer.post_count == 30 + 3 * CONNECTIONS


async def test_hanging_messages_give_their_connections_back(peer: FcmPeer) -> None:
    sender = make_sender(peer, timedelta(seconds=1))
    await send(sender, account(peer), "warm")
    peer.always("phone", Hang())
    hung = await asyncio.gather(*(send(sender, account(peer)) for _ in range(3 * CONNECTIONS)))
    # Those that never got a connection know that they did not go out, and that it was not Firebase's doing.
    assert {(verdict.code, left) for verdict, left in hung} == {("timeout", True), (ALL_TAKEN, False)}
    assert sorted(left for _, left in hung) == [False] * 2 * CONNECTIONS + [True] * CONNECTIONS
    assert all(isinstance(verdict, NoVerdict) and verdict.handed_over is left for verdict, left in hung)
    peer.always("phone", None)
    assert isinstance((await send(sender, account(peer)))[0], Delivered)
    await sender.close()


async def test_one_bad_answer_in_five_spoils_none_of_the_others(peer: FcmPeer, sender: FcmSender) -> None:
    for act in (HTML, EMPTY):
        peer.once("phone-3", act)
        tokens = [f"phone-{n}" for n in range(1, 6)]
        answers = [verdict for verdict, _ in await asyncio.gather(*(send(sender, account(peer), t) for t in tokens))]
        assert [type(answer) for answer in answers] == [Delivered, Delivered, NoVerdict, Delivered, Delivered]
    assert [peer.posts_to(token) for token in tokens] == [2, 2, 2, 2, 2]


async def test_all_who_wait_share_one_access_token_and_the_loop_goes_on_meanwhile(
    peer: FcmPeer, sender: FcmSender
) -> None:
    await asyncio.to_thread(load)
    peer.granting.clear()
    sending = [asyncio.create_task(send(sender, account(peer), f"phone-{n}")) for n in range(5)]
    # This very loop serves the peer too: were it blocked by the wait for the token, this would never come true.
    await until(lambda: peer.grant_count == 1)
    assert peer.post_count == 0
    peer.granting.set()
    assert all(isinstance(verdict, Delivered) for verdict, _ in await asyncio.gather(*sending))
    assert peer.grant_count == 1


async def test_a_token_near_its_end_serves_while_the_next_is_fetched(peer: FcmPeer, sender: FcmSender) -> None:
    peer.token_seconds = 11
    await send(sender, account(peer))
    project = await sender._project(account(peer))
    token = project.access._token
    assert token is not None
    project.access._token = replace(token, refresh_at=0.0)
    peer.granting.clear()
    assert isinstance((await send(sender, account(peer)))[0], Delivered)
    await until(lambda: peer.grant_count == 2)
    peer.granting.set()
    await until(lambda: project.access._token != replace(token, refresh_at=0.0))
    assert isinstance((await send(sender, account(peer)))[0], Delivered)


async def test_a_refused_access_token_blocks_the_sender_once_and_is_replaced(peer: FcmPeer, sender: FcmSender) -> None:
    await send(sender, account(peer))
    peer.withdraw_access()
    verdict, _ = await send(sender, account(peer))
    assert isinstance(verdict, SenderBlocked)
    assert isinstance((await send(sender, account(peer)))[0], Delivered)
    assert peer.grant_count == 2
    assert peer.post_count == 3


@pytest.mark.parametrize(
    ("act", "blocked"),
    [
        (Say(401, b'{"error": "invalid_client"}', {"Content-Type": "application/json"}), True),
        (Say(400, b'{"error": "invalid_grant"}', {"Content-Type": "application/json"}), True),
        (Say(503, b"down"), False),
        (Say(200, b"<html>Sign in</html>"), False),
        (Say(200, b'{"access_token": "a\\r\\nX: y", "expires_in": 3600}'), False),
        (Say(200, b'{"access_token": "a\\n", "expires_in": 3600}'), False),
        (Say(200, b'{"access_token": "", "expires_in": 3600}'), False),
        (Say(200, '{"access_token": "Schlüssel", "expires_in": 3600}'.encode()), False),
        (Say(200, b'{"access_token": "a", "expires_in": -1}'), False),
        (Drop(), False),
    ],
)
async def test_without_an_access_token_nothing_is_posted(
    peer: FcmPeer, sender: FcmSender, act: Act, blocked: bool
) -> None:
    peer.next_grants.append(act)
    verdict, left = await send(sender, account(peer))
    assert isinstance(verdict, SenderBlocked) is blocked
    assert isinstance(verdict, NoVerdict) is not blocked
    assert not (isinstance(verdict, NoVerdict) and verdict.handed_over)
    assert not left
    assert peer.post_count == 0
    assert isinstance((await send(sender, account(peer)))[0], Delivered)


async def test_a_strangers_assertion_gets_no_access_token(peer: FcmPeer, sender: FcmSender) -> None:
    async with fcm_peer() as other:
        stranger = replace(account(other), token_uri=account(peer).token_uri)
        verdict, _ = await send(sender, stranger)
    assert verdict == SenderBlocked("sender", "oauth invalid_grant", verdict.error)


async def test_what_is_no_service_account_is_refused_without_repeating_it(peer: FcmPeer, sender: FcmSender) -> None:
    for text in (b"", b"{}", b"\xff", peer.account.text.replace("service_account", "authorized_user").encode()):
        with pytest.raises(AccountUnusable) as raised:
            parse_service_account(text)
        assert "PRIVATE KEY" not in str(raised.value)
    elliptic = ec.generate_private_key(ec.SECP256R1())
    of_another_kind = elliptic.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    for key in ("", "-----BEGIN PRIVATE KEY-----\nnone\n-----END PRIVATE KEY-----\n", of_another_kind):
        file = json.loads(peer.account.text) | {"private_key": key}
        verdict, _ = await send(sender, parse_service_account(json.dumps(file).encode()))
        assert (type(verdict), verdict.code) == (SenderBlocked, "service_account")
        assert "KEY" not in str(verdict.error)
    assert peer.grant_count == 0


async def test_a_closed_sender_opens_again(peer: FcmPeer, sender: FcmSender) -> None:
    await send(sender, account(peer))
    await sender.close()
    assert isinstance((await send(sender, account(peer)))[0], Delivered)


async def test_nothing_is_left_unclosed(peer: FcmPeer) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        sender = make_sender(peer)
        await send(sender, account(peer))
        await sender.close()
        del sender
        gc.collect()
    assert [str(warning.message) for warning in seen] == []
