"""A Firebase that rings nobody: OAuth and FCM v1 on loopback, which keeps the newest messages to be looked at.

It issues a service account of its own, so that the real firebase-admin talks to it as it would to Google.
"""

import asyncio
import secrets
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from services.cli.sandbox.serviceaccount import PROJECT, IssuedAccount
from shared.lifecycle import Part
from shared.web.instant import write_instant

MOST_MESSAGES = 1000
LARGEST_MESSAGE = 4096
"""FCM's own limit, in bytes of the texts and the data."""
FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
CLOSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class TakenPush:
    """One message as FCM would have taken it: ``message`` is the body's, for the phone behind ``token``."""

    received_at: datetime
    name: str
    token: str
    message: dict[str, Any]


class _Posted(Struct):
    message: dict[str, Any]


class PushOut(Struct, tag_field="channel", tag="push"):
    """One message in the simulator, as the sandbox lists it; ``message`` is the whole of it, as it was posted."""

    received_at: str
    id: str
    token: str
    title: str
    body: str
    data: dict[str, str]
    message: dict[str, Any]


class PushSimulator:
    """Takes every sound message to any token. The port is taken at once; ``part`` serves it."""

    def __init__(self, port: int = 0, *, most_messages: int = MOST_MESSAGES) -> None:
        """``port`` on loopback; 0 for a free one. Makes an RSA key, which takes a tenth of a second."""
        self._bound = socket.create_server(("127.0.0.1", port))
        self.port = int(self._bound.getsockname()[1])
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.account = IssuedAccount.make(f"{self.base_url}/token")
        self._taken: deque[TakenPush] = deque(maxlen=most_messages)
        self._issued: set[str] = set()
        self.token_seconds = 3600
        self.serving = False

    def newest(self, limit: int) -> Sequence[TakenPush]:
        """At most ``limit`` messages, newest first."""
        return list(reversed(self._taken))[:limit]

    def part(self) -> Part:
        """The part that answers."""
        return Part("push-simulator", self.run)

    async def run(self, stop: asyncio.Event) -> None:
        """Answer until ``stop`` is set."""
        app = web.Application(client_max_size=1024 * 1024)
        app.router.add_post("/token", self.grant)
        app.router.add_post("/v1/projects/{project}/messages:send", self.send)
        runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=CLOSE_SECONDS)
        await runner.setup()
        try:
            # The runner closes what it is given; the port stays ours in case the part has to start again.
            await web.SockSite(runner, self._bound.dup()).start()
            self.serving = True
            await stop.wait()
        finally:
            self.serving = False
            await runner.cleanup()
            if stop.is_set():
                self._bound.close()

    async def grant(self, request: web.Request) -> web.StreamResponse:
        """An access token for a sound assertion of the account issued here."""
        form = await request.post()
        if not self.account.signed(str(form.get("assertion", ""))):
            return web.json_response({"error": "invalid_grant", "error_description": "Invalid JWT."}, status=400)
        token = f"ya29.{secrets.token_urlsafe(24)}"
        self._issued.add(token)
        return web.json_response({"access_token": token, "expires_in": self.token_seconds, "token_type": "Bearer"})

    async def send(self, request: web.Request) -> web.StreamResponse:
        """What FCM would answer to one message."""
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self._issued:
            return refusal(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
        if request.match_info["project"] != PROJECT:
            return refusal(404, "NOT_FOUND", "Requested entity was not found.")
        try:
            posted = msgspec.json.decode(await request.read(), type=_Posted)
        except msgspec.MsgspecError as exc:
            return refusal(400, "INVALID_ARGUMENT", f"Invalid JSON payload received. {exc}")
        return await self.take(request, str(posted.message.get("token", "")), posted.message)

    async def take(self, _request: web.Request, token: str, message: dict[str, Any]) -> web.StreamResponse:
        """The answer to a message that came in good order."""
        if not token:
            return refusal(400, "INVALID_ARGUMENT", "Recipient of the message is not set.", "INVALID_ARGUMENT")
        if _size(message) > LARGEST_MESSAGE:
            return refusal(400, "INVALID_ARGUMENT", "Android message is too big", "INVALID_ARGUMENT")
        name = f"projects/{PROJECT}/messages/0:{secrets.token_hex(12)}"
        self._taken.append(TakenPush(datetime.now(UTC), name, token, message))
        return web.json_response({"name": name})


def show_push(push: TakenPush) -> PushOut:
    """``push`` in words."""
    notification = push.message.get("notification", {})
    return PushOut(
        received_at=write_instant(push.received_at),
        id=push.name,
        token=push.token,
        title=notification.get("title", ""),
        body=notification.get("body", ""),
        data=push.message.get("data", {}),
        message=push.message,
    )


def refusal(status: int, word: str, message: str, code: str | None = None, field: str | None = None) -> web.Response:
    """An error as FCM writes it; ``code`` is the FcmError's, ``field`` the one at fault."""
    details: list[dict[str, Any]] = [{"@type": FCM_ERROR, "errorCode": code}] if code else []
    if field is not None:
        details.append({"@type": BAD_REQUEST, "fieldViolations": [{"field": field, "description": message}]})
    error: dict[str, Any] = {"code": status, "message": message, "status": word}
    if details:
        error["details"] = details
    return web.json_response({"error": error}, status=status)


def _size(message: dict[str, Any]) -> int:
    notification, data = message.get("notification", {}), message.get("data", {})
    return sum(len(f"{text}".encode()) for part in (notification, data) for pair in part.items() for text in pair)
