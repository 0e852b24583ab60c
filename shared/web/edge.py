"""The outermost layer of every HTTP service: a name for each request, and how long its answer took."""

import re
import time
import uuid
from typing import Any

import structlog
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from shared.metrics import request_seconds
from shared.web.slashes import keep_slashes

LONGEST_REQUEST_ID = 128
_NOT_IN_REQUEST_ID = re.compile(r"[^A-Za-z0-9._:/+=@-]")
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_KEY = "waybill.request_id"


def request_id_of(scope: Any) -> str:
    """The id of the request that ``scope`` belongs to."""
    return str(scope.get(_KEY, ""))


def new_request_id() -> str:
    """The id of a request that came without one."""
    return f"req_{uuid.uuid4().hex}"


class Edge:
    """An ASGI application around ``app``: takes or makes X-Request-Id, gives it back, puts it on every log line."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        keep_slashes(scope)
        request_id = _take_request_id(scope) or new_request_id()
        scope[_KEY] = request_id  # type: ignore[literal-required]  # ASGI lets a server put keys of its own in a scope
        started, status = time.perf_counter(), 0

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode())]
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await self._app(scope, receive, send_named)
        request_seconds.labels(
            scope["method"] if scope["method"] in _METHODS else "other",
            scope.get("path_template") or "unmatched",
            status,
        ).observe(time.perf_counter() - started)


def _take_request_id(scope: Any) -> str:
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return _NOT_IN_REQUEST_ID.sub("", given.decode("latin-1"))[:LONGEST_REQUEST_ID]
