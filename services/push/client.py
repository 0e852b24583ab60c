"""What firebase-admin sends through in place of its own HTTP client, whose retries leak connections and outlast leases.

Whoever sends puts an Exchange into the context first, and finds the verdict in it: firebase-admin turns answers
into exceptions and some into failures of a whole batch.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass

import httpx
import msgspec

from services.push.access import AccessToken, NoAccess
from services.push.connections import Connections, NoReply
from services.push.fcm_replies import blames_access_token, judge
from shared.verdict import NoVerdict, Verdict


@dataclass(slots=True)
class Exchange:
    """One message on its way: ``leaving`` is called before its body leaves, ``verdict`` is set when it ended."""

    leaving: Callable[[], None]
    has_left: bool = False
    verdict: Verdict | None = None

    def leave(self) -> None:
        """Its body is about to leave."""
        self.has_left = True
        self.leaving()


EXCHANGE: ContextVar[Exchange] = ContextVar("exchange")


class Client:
    """One project's way out: one POST a message, under an access token of its service account."""

    def __init__(self, connections: Connections, access: AccessToken) -> None:
        self._connections = connections
        self._access = access

    async def request(self, method: str, url: str, headers: dict[str, str], json: object) -> httpx.Response:
        """The answer as firebase-admin knows it; raises httpx's errors, as its own client does."""
        exchange = EXCHANGE.get()
        request = httpx.Request(method, url)
        try:
            bearer = await self._access.bearer()
            reply = await self._connections.post(
                url,
                msgspec.json.encode(json),
                {**headers, "Content-Type": "application/json", "Authorization": f"Bearer {bearer}"},
                exchange.leave,
            )
        except NoAccess as exc:
            exchange.verdict = exc.verdict
            raise httpx.ConnectError("no access token", request=request) from exc
        except NoReply as exc:
            exchange.verdict = NoVerdict(handed_over=exc.connected, code=exc.code, error=exc.error)
            raise _httpx_error(exc, request) from exc
        if blames_access_token(reply):
            self._access.forget(bearer)
        exchange.verdict = judge(reply)
        response = httpx.Response(reply.status, headers=_plain(reply.headers), content=reply.body, request=request)
        return response.raise_for_status()

    async def aclose(self) -> None:
        """Nothing: the connections belong to all projects."""


def _httpx_error(no_reply: NoReply, request: httpx.Request) -> httpx.RequestError:
    if no_reply.code == "timeout":
        return httpx.ReadTimeout(no_reply.error, request=request)
    kind = httpx.ReadError if no_reply.connected else httpx.ConnectError
    return kind(no_reply.error, request=request)


def _plain(headers: Mapping[str, str]) -> dict[str, str]:
    """``headers`` without those of the transfer: the content is whole and unpacked."""
    dropped = ("content-encoding", "content-length", "transfer-encoding")
    return {name: value for name, value in headers.items() if name not in dropped}
