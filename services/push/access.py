"""The access token of one service account: fetched on the loop, once for all who wait, ahead of its end."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

import msgspec

from services.push.connections import Connections, NoReply
from services.push.fcm_replies import judge_oauth
from shared.logs import get_logger
from shared.verdict import NoVerdict, Verdict

log = get_logger()

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
REFRESH_AHEAD_SECONDS = 240.0
"""A token this near its end (a quarter of its life at most) still serves, while the next one is fetched."""
END_MARGIN_SECONDS = 10.0
AGAIN_SECONDS = 5.0
"""The pause after an early fetch that failed."""

Sign = Callable[[], str]
"""A fresh assertion (RFC 7523) that asks for an access token."""


class NoAccess(Exception):
    """There is no access token; ``verdict`` is that on every message that waited for one."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__()
        self.verdict = verdict


class _Granted(msgspec.Struct):
    # What fits into a header: with any other every message would fail on its way out, for as long as the token lives.
    access_token: Annotated[str, msgspec.Meta(pattern=r"^[!-~]+\Z")]
    expires_in: Annotated[float, msgspec.Meta(gt=0)]


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    refresh_at: float
    ends_at: float


class AccessToken:
    """One account's token. google-auth would fetch it with a blocking call, on the loop whenever none is left."""

    def __init__(self, token_uri: str, sign: Sign, connections: Connections) -> None:
        self._token_uri = token_uri
        self._sign = sign
        self._connections = connections
        self._token: _Token | None = None
        self._fetching: asyncio.Task[_Token] | None = None
        self._not_before = 0.0

    async def bearer(self) -> str:
        """A token that serves now. Raises NoAccess."""
        token, now = self._token, time.monotonic()
        if token is None or now >= token.ends_at:
            return (await asyncio.shield(self._fetch())).text
        if now >= token.refresh_at and now >= self._not_before:
            self._fetch()
        return token.text

    def forget(self, text: str) -> None:
        """``text`` was refused: fetch another the next time."""
        if self._token is not None and self._token.text == text:
            self._token = None

    async def close(self) -> None:
        """Give up a fetch that is under way."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait({self._fetching}, timeout=1.0)

    def _fetch(self) -> "asyncio.Task[_Token]":
        if self._fetching is None:
            self._fetching = asyncio.create_task(self._fetch_once())
            self._fetching.add_done_callback(self._fetched)
        return self._fetching

    def _fetched(self, task: "asyncio.Task[_Token]") -> None:
        self._fetching = None
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._not_before = time.monotonic() + AGAIN_SECONDS
            log.warning("push.no_access_token", error=repr(getattr(failure, "verdict", failure)))

    async def _fetch_once(self) -> _Token:
        asked_at = time.monotonic()
        body = urlencode({"grant_type": GRANT, "assertion": self._sign()}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        try:
            reply = await self._connections.post(self._token_uri, body, headers, lambda: None)
        except NoReply as exc:
            # The message itself has not left: whatever became of this, no phone rang.
            raise NoAccess(NoVerdict(handed_over=False, code=f"oauth {exc.code}", error=exc.error)) from exc
        try:
            granted = msgspec.json.decode(reply.body, type=_Granted)
        except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
            raise NoAccess(judge_oauth(reply)) from exc
        ends_at = asked_at + granted.expires_in - END_MARGIN_SECONDS
        ahead = min(REFRESH_AHEAD_SECONDS, granted.expires_in / 4)
        self._token = _Token(granted.access_token, ends_at - ahead, ends_at)
        return self._token
