"""Whoever knows an endpoint's path can write to that browser: it is in no error that is stored, shown or logged."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

import pytest

from services.push.message import Letter
from services.push.signers import Signer
from services.push.webpush import Subscription, WebPushSender
from shared.content import PushContent
from shared.endpoint import EndpointRules, Pair
from shared.vapid import new_vapid_key
from shared.verdict import NoVerdict, SenderBlocked, Verdict
from tests.fakes.webpush import Browser

SECRET = "dHIoDxE7Hdg:APA91bH1Zj0kNa-_%31"
LETTER = Letter(PushContent("Booked", "See you", "en"), uuid4(), 0)
PAGE = f"<html>UnauthorizedRegistration: /wp/{SECRET} was created by another</html>".encode()


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[int]:
    """The port of a push service that says ``answer`` to everything."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(say, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def said(answer: bytes) -> Verdict:
    """The verdict on ``answer``."""
    async with answering(answer) as port:
        rules = EndpointRules(trusted=frozenset({Pair("127.0.0.1", port)}))
        sender = WebPushSender(rules, connections=1, within=timedelta(seconds=5))
        subscription = Subscription(f"http://127.0.0.1:{port}/wp/{SECRET}", Browser("firefox", "").keys)
        signer = Signer(new_vapid_key(), "mailto:push@campus.example")
        try:
            return await sender.send(signer, subscription, LETTER, timedelta(hours=1), lambda: None)
        finally:
            await sender.close()


@pytest.mark.parametrize(
    "answer", [b"garbage\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 201 Created\r\nBad Header\r\n\r\n"]
)
async def test_an_answer_that_is_no_http_tells_no_endpoint(answer: bytes) -> None:
    verdict = await said(answer)
    assert isinstance(verdict, NoVerdict)
    assert (verdict.code, verdict.handed_over) == ("dropped", True)
    assert SECRET not in str(verdict)


async def test_an_answer_that_repeats_the_endpoint_is_kept_without_it() -> None:
    verdict = await said(b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%s" % (len(PAGE), PAGE))
    assert isinstance(verdict, SenderBlocked)
    assert "UnauthorizedRegistration" in str(verdict.error)
    assert SECRET not in str(verdict)
