"""Firebase on loopback that does as the test says: per token it answers otherwise, hangs or hangs up, and counts."""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from services.cli.sandbox.pushes import PushSimulator, refusal
from tests.factories import until
from tests.fakes.lines import Lines

MOST_REMEMBERED = 100_000
"""More than any test sends: what a phone got is evidence."""


@dataclass(frozen=True)
class Say:
    """Answer so. ``taken``: the phone got the message all the same."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    taken: bool = False


@dataclass(frozen=True)
class Refuse:
    """Answer with an error as FCM writes it."""

    status: int
    word: str
    message: str
    code: str | None = None
    at_field: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    taken: bool = False


@dataclass(frozen=True)
class Hang:
    """Never answer. ``taken``: the phone got the message all the same."""

    taken: bool = False


@dataclass(frozen=True)
class Drop:
    """Cut the connection without an answer. ``taken``: the phone got the message all the same."""

    taken: bool = False


@dataclass(frozen=True)
class Wait:
    """Go the usual way once ``until`` is set."""

    until: asyncio.Event
    taken: bool = False


Act = Say | Refuse | Hang | Drop | Wait

UNREGISTERED = Refuse(404, "NOT_FOUND", "Requested entity was not found.", "UNREGISTERED")
BAD_TOKEN = Refuse(
    400, "INVALID_ARGUMENT", "The registration token is not valid", "INVALID_ARGUMENT", at_field="message.token"
)
TOO_BIG = Refuse(400, "INVALID_ARGUMENT", "Android message is too big", "INVALID_ARGUMENT")
OTHER_PROJECTS_TOKEN = Refuse(403, "PERMISSION_DENIED", "SenderId mismatch", "SENDER_ID_MISMATCH")
UNAVAILABLE = Refuse(503, "UNAVAILABLE", "Service unavailable now.", "UNAVAILABLE")
HTML = Say(200, b"<html>Sign in to the network</html>", {"Content-Type": "text/html"})
EMPTY = Say(200, b"{}", {"Content-Type": "application/json"})


def too_many(retry_after: str | None = None) -> Refuse:
    """Not now, and perhaps when."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Refuse(429, "RESOURCE_EXHAUSTED", "Over quota.", "QUOTA_EXCEEDED", headers=headers)


class FcmPeer(PushSimulator):
    """The simulator with a script. ``before_reading`` comes before a message's body is looked at."""

    def __init__(self) -> None:
        super().__init__(most_messages=MOST_REMEMBERED)
        self.post_count = 0
        self.grant_count = 0
        self.posts: list[str] = []
        self.posts_of: Counter[str] = Counter()
        """How many messages of each job were posted, whatever was answered."""
        self.lines = Lines()
        self.before_reading: Act | None = None
        self.next_grants: deque[Act] = deque()
        self.granting = asyncio.Event()
        self.granting.set()
        self._once: dict[str, deque[Act]] = defaultdict(deque)
        self._always: dict[str, Act] = {}
        self._over = asyncio.Event()

    def once(self, token: str, *acts: Act) -> None:
        """Do each of ``acts`` once, in order, at the next messages to ``token``."""
        self._once[token].extend(acts)

    def always(self, token: str, act: Act | None) -> None:
        """Do ``act`` at every message to ``token`` that nothing else claims; None ends it."""
        if act is None:
            self._always.pop(token, None)
        else:
            self._always[token] = act

    def forget(self) -> None:
        """Do nothing but what the simulator does."""
        self.granting.set()
        self._once.clear()
        self._always.clear()

    def posts_to(self, token: str) -> int:
        """How many messages to ``token`` were posted, whatever was answered."""
        return self.posts.count(token)

    def rung(self, token: str) -> list[dict[str, Any]]:
        """The messages the phone behind ``token`` got, oldest first."""
        return [push.message for push in reversed(self.newest(MOST_REMEMBERED)) if push.token == token]

    def withdraw_access(self) -> None:
        """From now on no access token issued so far is good."""
        self._issued.clear()

    def end(self) -> None:
        """Let go of whatever hangs."""
        self._over.set()

    async def grant(self, request: web.Request) -> web.StreamResponse:
        """An access token, unless the script says otherwise."""
        self.grant_count += 1
        self.lines.note(request)
        await self.granting.wait()
        if self.next_grants:
            return await self._do(request, self.next_grants.popleft())
        return await super().grant(request)

    async def send(self, request: web.Request) -> web.StreamResponse:
        """The answer to one message, counted before anything is read."""
        self.post_count += 1
        self.lines.note(request)
        if self.before_reading is not None:
            return await self._do(request, self.before_reading)
        return await super().send(request)

    async def take(self, request: web.Request, token: str, message: dict[str, Any]) -> web.StreamResponse:
        """What the script says of ``token``, else what the simulator does."""
        self.posts.append(token)
        self.posts_of[message.get("data", {}).get("waybill_job", "")] += 1
        act = self._once[token].popleft() if self._once[token] else self._always.get(token)
        if isinstance(act, Wait):
            await act.until.wait()
        if act is None or isinstance(act, Wait):
            return await super().take(request, token, message)
        if act.taken:
            await super().take(request, token, message)
        return await self._do(request, act)

    async def _do(self, request: web.Request, act: Act) -> web.StreamResponse:
        match act:
            case Say():
                return web.Response(status=act.status, body=act.body, headers=act.headers)
            case Refuse():
                answer = refusal(act.status, act.word, act.message, act.code, act.at_field)
                answer.headers.update(act.headers)
                return answer
            case Hang():
                await self._over.wait()
        if request.transport is not None:
            request.transport.abort()
        return web.Response()


@asynccontextmanager
async def fcm_peer() -> AsyncIterator[FcmPeer]:
    """A peer that answers until the block ends."""
    peer, stop = FcmPeer(), asyncio.Event()
    running = asyncio.create_task(peer.run(stop))
    try:
        await until(lambda: running.done() or peer.serving)
        yield peer
    finally:
        peer.end()
        stop.set()
        await running
