"""HTTP to push services: few connections, kept open, one POST a call, and always known whether the body has left."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from services.push.reply import Reply

LARGEST_REPLY = 64 * 1024
KEEP_ALIVE_SECONDS = 30.0
TO_CONNECT = 0.5
"""The share of a POST's time within which it must have a connection: what leaves late has no time to be answered."""
ALL_TAKEN = "no_connection"
"""The code of a POST that waited for others' connections: it says nothing of the service."""


class NoReply(Exception):
    """No whole answer came; ``code`` says in a word why, ``connected`` whether there was a connection at all."""

    def __init__(self, code: str, error: str, *, connected: bool) -> None:
        super().__init__(error)
        self.code = code
        self.error = error
        self.connected = connected


@dataclass(slots=True)
class _Way:
    """How far one POST has come: in the queue for a connection, or leaving."""

    leaving: Callable[[], None]
    queued: bool = False
    has_left: bool = False

    def leave(self) -> None:
        """Its body is about to leave."""
        self.has_left = True
        self.leaving()


class Connections:
    """A pool of at most ``limit`` connections; a POST has ``seconds``, waiting for a free connection included.

    Nothing is ever sent a second time, no redirect is followed, no proxy asked. Usable again after ``close``.
    """

    def __init__(
        self, limit: int, seconds: float, resolver: Callable[[], AbstractResolver] | None = None, per_host: int = 0
    ) -> None:
        """At most ``per_host`` go to one host (0: all may), so that one that hangs leaves some for the others.

        ``resolver`` makes what names are looked up with, whenever the pool is opened; None: the system's.
        """
        self._limit = limit
        self._per_host = per_host
        self._resolver = resolver
        self._timeout = aiohttp.ClientTimeout(total=seconds, connect=seconds * TO_CONNECT)
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: str | URL, body: bytes, headers: Mapping[str, str], leaving: Callable[[], None]) -> Reply:
        """The answer to one POST; ``leaving`` is called before the first byte of ``body`` does. Raises NoReply."""
        way = _Way(leaving)
        try:
            async with self._open_session().post(
                url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=way
            ) as answer:
                content = await _read(answer)
                return Reply(answer.status, {k.lower(): v for k, v in answer.headers.items()}, content)
        except TimeoutError as exc:
            if way.queued:
                raise NoReply(ALL_TAKEN, "all connections were in use", connected=False) from exc
            raise NoReply("timeout", "no answer in time", connected=way.has_left) from exc
        except (aiohttp.ClientError, OSError, ValueError) as exc:
            code = "dropped" if way.has_left else "connect"
            raise NoReply(code, f"{type(exc).__name__}: {_words(exc)}", connected=way.has_left) from exc

    async def close(self) -> None:
        """Close every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._limit,
                    limit_per_host=self._per_host,
                    keepalive_timeout=KEEP_ALIVE_SECONDS,
                    resolver=None if self._resolver is None else self._resolver(),
                ),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=[_tracing()],
            )
        return self._session


def _words(failure: Exception) -> str:
    """What ``failure`` says, without the URL that aiohttp puts in: to know a browser's is to be able to write to it."""
    if isinstance(failure, aiohttp.ClientResponseError):
        return failure.message
    if isinstance(failure, aiohttp.ClientConnectorDNSError):
        # aiohttp's own words leave out what was wrong with the name.
        return str(failure.os_error)
    return "the URL is none" if isinstance(failure, aiohttp.InvalidURL) else str(failure)


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    content = bytearray()
    async for chunk in answer.content.iter_any():
        content += chunk
        if len(content) > LARGEST_REPLY:
            # Nothing that long is an answer of a push service. What is unread ends with its connection.
            answer.close()
            break
    return bytes(content[:LARGEST_REPLY])


def _tracing() -> aiohttp.TraceConfig:
    tracing = aiohttp.TraceConfig()
    tracing.on_request_headers_sent.append(_leave)
    tracing.on_connection_queued_start.append(_queue)
    tracing.on_connection_queued_end.append(_leave_queue)
    return tracing


async def _leave(_session: aiohttp.ClientSession, context: SimpleNamespace, _params: Any) -> None:
    context.trace_request_ctx.leave()


async def _queue(_session: aiohttp.ClientSession, context: SimpleNamespace, _params: Any) -> None:
    context.trace_request_ctx.queued = True


async def _leave_queue(_session: aiohttp.ClientSession, context: SimpleNamespace, _params: Any) -> None:
    context.trace_request_ctx.queued = False
