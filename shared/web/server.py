"""HTTP servers as parts: uvicorn under our own signals, on a socket that is bound before anything starts."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvicorn

from shared.errors import WaybillError
from shared.lifecycle import Part
from shared.logs import get_logger
from shared.web.edge import new_request_id
from shared.web.problems import PROBLEM_MEDIA_TYPE, encode_problem, problem

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

log = get_logger()

GRACEFUL_SECONDS = 5
KEEP_ALIVE_SECONDS = 75
"""Longer than the 60 s of common load balancers: the side that reuses a connection must be the one to close it."""


class CannotListen(WaybillError):
    """An address that cannot be listened on: taken (``errno`` EADDRINUSE), not ours, or not allowed."""

    def __init__(self, host: str, port: int, cause: OSError) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {cause.strerror or cause}")
        self.host = host
        self.port = port
        self.errno = cause.errno


def take_port(host: str, port: int) -> socket.socket:
    """A socket that listens on ``host``:``port``, for what speaks something else than HTTP. Raises CannotListen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as exc:
        raise CannotListen(host, port, exc) from exc


@dataclass(frozen=True)
class HttpPart(Part):
    """A part that answers HTTP on ``port`` (the one it really got where 0 was asked for) while ``answering`` is set."""

    port: int
    answering: asyncio.Event


def http_part(name: str, app: "ASGI3Application", host: str, port: int) -> HttpPart:
    """A part that serves ``app``.

    The port is taken at once, so that a busy one (CannotListen) is known before anything runs; it belongs
    to the part until its run has ended. Open requests get five seconds after the stop.
    """
    bound = _bind(host, port)
    port = bound.getsockname()[1]
    answering = asyncio.Event()

    async def run(stop: asyncio.Event) -> None:
        server = _Server(name, app, stop, answering)
        # uvicorn closes what it is given; the port stays ours in case the part has to start again.
        listening = bound.dup()
        try:
            await server.serve(sockets=[listening])
        finally:
            answering.clear()
            server.close_listeners()
            listening.close()
            if stop.is_set():
                bound.close()

    return HttpPart(name, run, port, answering)


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as exc:
        raise CannotListen(host, port, exc) from exc
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as exc:
        bound.close()
        raise CannotListen(host, port, exc) from exc
    return bound


class _Server(uvicorn.Server):
    """uvicorn that leaves signals alone, follows ``stop`` and never calls ``sys.exit``."""

    def __init__(self, name: str, app: "ASGI3Application", stop: asyncio.Event, answering: asyncio.Event) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="on",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACEFUL_SECONDS,
            )
        )
        self.config.load()
        self.config.http_protocol_class = _saying_problems(self.config.http_protocol_class)
        self._name = name
        self._stop = stop
        self._answering = answering
        self.servers: list[asyncio.base_events.Server] = []

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: the process has its own handlers."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, and say so."""
        try:
            await super().startup(sockets)
        except SystemExit as exc:
            raise RuntimeError(f"the application of {self._name} did not start") from exc
        host, port = (sockets or [])[0].getsockname()[:2]
        log.info("http.listening", part=self._name, host=host, port=port)
        self._answering.set()

    async def on_tick(self, counter: int) -> bool:
        """Whether to end; asked ten times a second."""
        self.should_exit = self.should_exit or self._stop.is_set()
        return await super().on_tick(counter)

    def close_listeners(self) -> None:
        """Stop listening, also when the run was cut off."""
        for server in self.servers:
            server.close()


def _saying_problems(protocol: type[asyncio.Protocol]) -> type[asyncio.Protocol]:
    """``protocol`` as uvicorn has it, but for what it answers to bytes that are no HTTP: a problem, as everywhere."""

    class Protocol(protocol):  # type: ignore[valid-type,misc]  # which of uvicorn's it is depends on the machine
        def send_400_response(self, msg: str) -> None:
            request_id = new_request_id()
            told = encode_problem(problem("bad_request", "The request is not sound HTTP."), request_id)
            head = (
                "HTTP/1.1 400 Bad Request",
                f"content-type: {PROBLEM_MEDIA_TYPE}",
                f"content-length: {len(told)}",
                f"x-request-id: {request_id}",
                "connection: close",
            )
            self.transport.write("\r\n".join(head).encode() + b"\r\n\r\n" + told)
            self.transport.close()
            log.info("request.refused", code="bad_request", reason=msg, request_id=request_id)

    return Protocol
