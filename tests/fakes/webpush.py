"""A Web Push service on loopback: it checks the sender's signature, decrypts as the browser would, answers as told."""

import asyncio
import os
import re
import socket
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import http_ece  # type: ignore[import-untyped]  # it ships no types
import jwt
import msgspec
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from services.push.webpush import LARGEST_BODY
from shared.endpoint import EndpointRules, Pair
from shared.subscription import SubscriptionKeys
from shared.vapid import read_base64url, write_base64url
from tests.factories import until
from tests.fakes.fcm import Act, Drop, Hang, Refuse, Say, Wait
from tests.fakes.lines import Lines

_AUTHORIZATION = re.compile(r"vapid t=(?P<jwt>[\w.-]+), ?k=(?P<key>[\w-]+)")
_TOPIC = re.compile(r"[A-Za-z0-9_-]{1,32}")

GONE = Say(410, b"push subscription has unsubscribed or expired.\n")
NOT_FOUND = Say(404, b"not found")
WRONG_KEY = Say(403, b"the VAPID credentials in the authorization header do not correspond to the credentials used")
THROTTLED = Say(406, headers={"Retry-After": "7", "X-WNS-NotificationStatus": "appthrottled"})


@dataclass(frozen=True)
class Shown:
    """One message as its browser got it."""

    payload: dict[str, Any]
    headers: dict[str, str]


@dataclass
class Browser:
    """One subscription with its private half, which never leaves the browser; ``sender`` is the key it is for."""

    endpoint: str
    sender: str | None = None
    shown: list[Shown] = field(default_factory=list)
    post_count: int = 0
    _private: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    _auth: bytes = field(default_factory=lambda: os.urandom(16))

    @property
    def keys(self) -> SubscriptionKeys:
        """What it tells the page."""
        point = self._private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return SubscriptionKeys(write_base64url(point), write_base64url(self._auth))

    def as_json(self) -> dict[str, Any]:
        """What ``JSON.stringify(subscription)`` gives."""
        keys = {"p256dh": self.keys.p256dh, "auth": self.keys.auth}
        return {"endpoint": self.endpoint, "expirationTime": None, "keys": keys}

    def read(self, body: bytes) -> dict[str, Any]:
        """The message in ``body``. Raises http_ece.ECEException when it is none for this browser."""
        message = http_ece.decrypt(body, private_key=self._private, auth_secret=self._auth, version="aes128gcm")
        payload: dict[str, Any] = msgspec.json.decode(message, type=dict[str, Any])
        return payload


class WebPushPeer:
    """The service. What it does with a message to a browser is scripted by the browser's name."""

    def __init__(self) -> None:
        self._bound = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._bound.getsockname()[1])
        self.origin = f"http://127.0.0.1:{self.port}"
        self.rules = EndpointRules(trusted=frozenset({Pair("127.0.0.1", self.port)}))
        self.browsers: dict[str, Browser] = {}
        self.refusals: list[str] = []
        self.posts: list[str] = []
        self.lines = Lines()
        self.serving = False
        self._once: dict[str, deque[Act]] = defaultdict(deque)
        self._always: dict[str, Act] = {}
        self._over = asyncio.Event()

    def subscribe(self, name: str, sender: str | None = None) -> Browser:
        """A browser called ``name`` that lets only ``sender`` (a VAPID public key; None: anybody) write to it."""
        self.browsers[name] = Browser(f"{self.origin}/push/{name}", sender)
        return self.browsers[name]

    def once(self, name: str, *acts: Act) -> None:
        """Do each of ``acts`` once, in order, at the next messages to ``name``."""
        self._once[name].extend(acts)

    def always(self, name: str, act: Act | None) -> None:
        """Do ``act`` at every message to ``name`` that nothing else claims; None ends it."""
        self._always.pop(name, None)
        if act is not None:
            self._always[name] = act

    async def run(self, stop: asyncio.Event) -> None:
        """Answer until ``stop`` is set."""
        app = web.Application(client_max_size=1024 * 1024)
        app.router.add_post("/push/{name}", self._post)
        app.router.add_post("/elsewhere", self._elsewhere)
        runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.SockSite(runner, self._bound).start()
            self.serving = True
            await stop.wait()
        finally:
            self._over.set()
            await runner.cleanup()

    async def _post(self, request: web.Request) -> web.StreamResponse:
        self.lines.note(request)
        name = request.match_info["name"]
        browser = self.browsers.get(name)
        if browser is None:
            return web.Response(status=404, text="no such subscription")
        browser.post_count += 1
        self.posts.append(name)
        act = self._once[name].popleft() if self._once[name] else self._always.get(name)
        if isinstance(act, Wait):
            await act.until.wait()
            act = None
        if act is None or act.taken:
            answer = await self._take(request, browser)
            if act is None or answer.status != 201:
                return answer
        return await self._do(request, act)

    async def _elsewhere(self, _request: web.Request) -> web.StreamResponse:
        self.refusals.append("a redirect was followed")
        return web.Response(status=201)

    async def _take(self, request: web.Request, browser: Browser) -> web.StreamResponse:
        body = await request.read()
        fault = self._fault(request, browser, body)
        if fault is not None:
            self.refusals.append(fault[1])
            return web.Response(status=fault[0], text=fault[1])
        browser.shown.append(Shown(browser.read(body), dict(request.headers)))
        return web.Response(status=201, headers={"Location": f"{self.origin}/m/{len(browser.shown)}"})

    def _fault(self, request: web.Request, browser: Browser, body: bytes) -> tuple[int, str] | None:
        headers = request.headers
        signed = _AUTHORIZATION.fullmatch(headers.get("Authorization", ""))
        if signed is None or not self._is_signed(signed["jwt"], signed["key"]):
            return 403, "invalid JWT provided"
        if browser.sender not in (None, signed["key"]):
            return 403, "the key does not correspond to the one used to subscribe"
        if not headers.get("TTL", "").isdigit() or headers.get("Content-Encoding") != "aes128gcm":
            return 400, "TTL or Content-Encoding is missing"
        if not _TOPIC.fullmatch(headers.get("Topic", "")):
            return 400, "BadWebPushTopic"
        if len(body) > LARGEST_BODY:
            return 413, "too large"
        try:
            browser.read(body)
        except (http_ece.ECEException, msgspec.MsgspecError):
            return 400, "the browser cannot read it"
        return None

    def _is_signed(self, token: str, key: str) -> bool:
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), read_base64url(key))
        try:
            claims = jwt.decode(token, public, algorithms=["ES256"], audience=self.origin)
        except jwt.InvalidTokenError:
            return False
        contact = str(claims.get("sub", ""))
        return claims["exp"] <= time.time() + 24 * 3600 and contact.startswith(("mailto:", "https://"))

    async def _do(self, request: web.Request, act: Act) -> web.StreamResponse:
        match act:
            case Say():
                return web.Response(status=act.status, body=act.body, headers=act.headers)
            case Hang():
                await self._over.wait()
            case Refuse() | Wait() | Drop():
                pass
        if request.transport is not None:
            request.transport.abort()
        return web.Response()


@asynccontextmanager
async def webpush_peer() -> AsyncIterator[WebPushPeer]:
    """A peer that answers until the block ends."""
    peer, stop = WebPushPeer(), asyncio.Event()
    running = asyncio.create_task(peer.run(stop))
    try:
        await until(lambda: running.done() or peer.serving)
        yield peer
    finally:
        stop.set()
        await running
