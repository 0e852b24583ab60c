"""Letting browsers in: any page may ask, because a token in a header is all the power there is.

No cookie is ever looked at, so a foreign page has nothing to ride on: without a token it gets what curl gets.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, Scope

_ALWAYS = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"X-Request-Id, Retry-After, WWW-Authenticate"),
    # What is in an inbox is nobody else's: not a shared cache's either.
    (b"cache-control", b"private, no-store"),
]
_PREFLIGHT = [
    *_ALWAYS,
    (b"access-control-allow-methods", b"GET, PUT, DELETE"),
    (b"access-control-allow-headers", b"Authorization, Content-Type, X-Request-Id"),
    (b"access-control-max-age", b"7200"),
]


def open_to_browsers(app: "ASGI3Application") -> "ASGI3Application":
    """``app`` with CORS for every origin, without credentials, its errors included."""

    async def wrapped(scope: "Scope", receive: "ASGIReceiveCallable", send: "ASGISendCallable") -> None:
        async def send_open(event: "ASGISendEvent") -> None:
            if event["type"] == "http.response.start":
                event["headers"] = [*event["headers"], *_ALWAYS]
            await send(event)

        if scope["type"] != "http":
            await app(scope, receive, send)
        elif scope["method"] == "OPTIONS" and any(n == b"access-control-request-method" for n, _ in scope["headers"]):
            await send({"type": "http.response.start", "status": 204, "headers": _PREFLIGHT, "trailers": False})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await app(scope, receive, send_open)

    return wrapped
