"""The mail catcher takes what a relay would take, keeps the newest, and shows it to the operator."""

import asyncio
import smtplib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from services.cli.sandbox.mailcatcher import CaughtMail, MailCatcher
from services.cli.sandbox.messages import message_routes
from services.cli.sandbox.pushes import TakenPush
from services.email.smtp import SmtpProvider
from shared.lifecycle import run_parts
from shared.relay import Relay
from shared.verdict import Delivered, Rejected
from shared.web.app import make_app
from shared.web.server import CannotListen
from tests.fakes.parcels import email_parcel

ENOUGH = timedelta(seconds=20)
TOKEN = "operators-only"
PATH = "/sandbox/messages"
PUSHES = [
    TakenPush(datetime(2026, 12, day, tzinfo=UTC), f"m/{day}", "a", {"notification": {"title": title}})
    for day, title in ((2, "later"), (1, "earlier"))
]


def _api(catcher: MailCatcher) -> httpx.AsyncClient:
    app = make_app(message_routes(catcher.newest, lambda limit: PUSHES[:limit], TOKEN), "Sandbox", "/api/v1")
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
    return httpx.AsyncClient(
        transport=transport, base_url="http://api.test", headers={"Authorization": f"Bearer {TOKEN}"}
    )


async def _list(catcher: MailCatcher, query: str = "?channel=email") -> list[dict[str, Any]]:
    async with _api(catcher) as api:
        answer = await api.get(PATH + query)
    assert answer.status_code == 200, answer.text
    data: list[dict[str, Any]] = answer.json()["data"]
    return data


def _mail(content: bytes, to: str = "bob@inbox.example") -> CaughtMail:
    return CaughtMail(datetime(2026, 12, 1, 12, tzinfo=UTC), "hello@campus.example", (to,), content)


@pytest.fixture
async def caught() -> AsyncIterator[tuple[MailCatcher, int]]:
    """A running catcher and its port."""
    catcher = MailCatcher()
    part = catcher.part("127.0.0.1", 0)
    stop = asyncio.Event()
    running = asyncio.create_task(run_parts([part], stop))
    yield catcher, part.port
    stop.set()
    await running


async def test_what_the_email_service_sends_is_shown_to_the_operator(caught: tuple[MailCatcher, int]) -> None:
    catcher, port = caught
    provider = SmtpProvider(Relay("127.0.0.1", port), pool_size=2, attempt_timeout=ENOUGH)
    parcel = email_parcel(subject="Grüße & Küsse", to_name="Jürgen, der Erste")
    assert isinstance(await provider.send(parcel), Delivered)
    (shown,) = await _list(catcher)
    headers = shown.pop("headers")
    assert shown.pop("raw").startswith("From: CampusCritique <hello@campus.example>\r\nTo: =?utf-8?")
    assert shown.pop("received_at").endswith("Z")
    assert shown == {
        "channel": "email",
        "from": "hello@campus.example",
        "to": "bob@inbox.example",
        "subject": "Grüße & Küsse",
        "message_id": f"<{parcel.stable_id.hex}@campus.example>",
        "text": "Hello Bob,\nsee you there.\n",
        "html": "<p>Hello Bob, see you there.</p>\n",
    }
    assert headers["Auto-Submitted"] == "auto-generated"
    assert headers["To"] == "Jürgen, der Erste <bob@inbox.example>"
    await provider.close()


async def test_the_newest_come_first_and_as_many_as_asked_for(caught: tuple[MailCatcher, int]) -> None:
    catcher, port = caught
    provider = SmtpProvider(Relay("127.0.0.1", port), pool_size=1, attempt_timeout=ENOUGH)
    for number in range(5):
        await provider.send(email_parcel(subject=f"number {number}"))
    await provider.close()
    assert [mail["subject"] for mail in await _list(catcher, "?channel=email&limit=2")] == ["number 4", "number 3"]
    assert len(await _list(catcher)) == 5


async def test_mails_and_pushes_stand_together_in_the_order_they_came(caught: tuple[MailCatcher, int]) -> None:
    catcher, _ = caught
    catcher.keep(_mail(b"Subject: between\r\n\r\n"))
    shown = await _list(catcher, "")
    assert [message.get("subject", message.get("title")) for message in shown] == ["later", "between", "earlier"]
    assert [message["channel"] for message in shown] == ["push", "email", "push"]
    assert [message["title"] for message in await _list(catcher, "?channel=push")] == ["later", "earlier"]
    assert [message["subject"] for message in await _list(catcher, "?channel=email")] == ["between"]
    assert len(await _list(catcher, "?limit=1")) == 1


async def test_a_mail_that_is_too_large_is_refused(caught: tuple[MailCatcher, int]) -> None:
    catcher, port = caught
    provider = SmtpProvider(Relay("127.0.0.1", port), pool_size=1, attempt_timeout=ENOUGH)
    assert isinstance(await provider.send(email_parcel(text="line\n" * 3_000_000)), Rejected)
    await provider.close()
    assert await _list(catcher) == []


async def test_any_mail_program_may_use_it(caught: tuple[MailCatcher, int]) -> None:
    catcher, port = caught

    def send() -> None:
        with smtplib.SMTP("127.0.0.1", port, timeout=20) as client:
            client.sendmail("a@x.example", ["b@x.example", "c@x.example"], b"Subject: hi\r\n\r\nthere\r\n")

    await asyncio.to_thread(send)
    (shown,) = await _list(catcher)
    assert (shown["from"], shown["to"], shown["text"], shown["html"]) == (
        "a@x.example",
        "b@x.example, c@x.example",
        "there\n",
        None,
    )


async def test_open_connections_do_not_hold_up_the_stop() -> None:
    part = MailCatcher().part("127.0.0.1", 0)
    stop = asyncio.Event()
    running = asyncio.create_task(run_parts([part], stop))
    reader, writer = await asyncio.open_connection("127.0.0.1", part.port)
    assert (await reader.readline()).startswith(b"220")
    stop.set()
    async with asyncio.timeout(20):
        await running
        assert await reader.read() == b""
    writer.close()


async def test_a_busy_port_is_known_before_anything_runs() -> None:
    first = MailCatcher().part("127.0.0.1", 0)
    with pytest.raises(CannotListen) as caught:
        MailCatcher().part("127.0.0.1", first.port)
    assert caught.value.port == first.port
    stop = asyncio.Event()
    stop.set()
    await first.run(stop)


def test_only_the_newest_are_kept_by_number_and_by_size() -> None:
    by_number = MailCatcher(most_mails=3)
    by_size = MailCatcher(most_bytes=25)
    for number in range(10):
        by_number.keep(_mail(b"0123456789", f"{number}@x.example"))
        by_size.keep(_mail(b"0123456789", f"{number}@x.example"))
    assert [mail.envelope_to[0] for mail in by_number.newest(100)] == ["9@x.example", "8@x.example", "7@x.example"]
    assert [mail.envelope_to[0] for mail in by_size.newest(100)] == ["9@x.example", "8@x.example"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"Subject: =?utf-8?b?broken?=\r\n\r\nx",
        b"Subject: =?no-such-charset?q?x?=\r\nContent-Type: text/plain; charset=no-such-charset\r\n\r\nx\r\n",
        b"Subject: \xe4\xf6\r\nSubject: again\r\nFrom: <<<\r\n\r\nx",
        b"Content-Type: multipart/alternative; boundary=b\r\n\r\n--c\r\n",
        b"Content-Type: multipart/alternative\r\n\r\nx",
        b"Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\n%%%",
        b"Content-Type: text/html; charset=\"'\r\n\r\n<p>",
        b"Content-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\nx",
    ],
)
async def test_a_broken_mail_is_shown_as_far_as_it_can_be_read(content: bytes) -> None:
    catcher = MailCatcher()
    catcher.keep(_mail(content))
    (shown,) = await _list(catcher)
    assert shown["to"] == "bob@inbox.example"


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        (None, "operator_token_missing"),
        ("Basic b3BlcmF0b3I6", "operator_token_missing"),
        ("Bearer ", "operator_token_invalid"),
        ("Bearer operators-only-not", "operator_token_invalid"),
        ("Bearer Operators-Only", "operator_token_invalid"),
    ],
)
async def test_nobody_but_the_operator_sees_it(authorization: str | None, code: str) -> None:
    catcher = MailCatcher()
    catcher.keep(_mail(b"Subject: secret\r\n\r\n"))
    async with _api(catcher) as api:
        del api.headers["Authorization"]
        answer = await api.get(PATH, headers={} if authorization is None else {"Authorization": authorization})
    assert (answer.status_code, answer.json()["code"]) == (401, code)
    assert "secret" not in answer.text


async def test_what_is_listed_is_described(caught: tuple[MailCatcher, int]) -> None:
    async with _api(caught[0]) as api:
        described = (await api.get("/api/v1/openapi.json")).json()
    assert list(described["paths"]) == [PATH]
    shapes = described["components"]["schemas"]
    assert {"CaughtOut", "PushOut", "MessagesOut"} <= {name.rpartition("_")[2] for name in shapes}


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("?channel=inapp", "/channel"),
        ("?channel=", "/channel"),
        ("?limit=0", "/limit"),
        ("?limit=1001", "/limit"),
        ("?limit=x", "/limit"),
        ("?to=bob", "/to"),
    ],
)
async def test_a_wrong_query_is_refused_by_name(query: str, pointer: str) -> None:
    async with _api(MailCatcher()) as api:
        answer = await api.get(PATH + query)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
