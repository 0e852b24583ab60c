"""Slashes within a name: ``%2F`` in a path belongs to its segment, as RFC 3986 has it, and does not end it.

Servers decode a path before anybody looks for its route, and a recipient called ``team/7`` would be two segments.
"""

from typing import Any
from urllib.parse import unquote

from litestar.types import ASGIApp, Receive, Scope, Send

_SLASH = "\udc2f"
"""Stands for an escaped slash until the route is found. It is no character: nobody can send it."""


def keep_slashes(scope: Scope) -> None:
    """Read the path of a request anew, from what was sent, if a slash in it is escaped."""
    sent = scope.get("raw_path") or b""
    if b"%2f" in sent.lower():
        segments = sent.decode("ascii", "replace").split("/")
        scope["path"] = "/".join(unquote(segment).replace("/", _SLASH) for segment in segments)


class GivenSlashes:
    """A layer behind the routes: parameters of the path have the slashes that were escaped."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on one request."""
        if _SLASH in scope["path"]:
            scope["path"] = scope["path"].replace(_SLASH, "/")
            # Another dictionary: the framework keeps this one for the next request to the same path.
            scope["path_params"] = {name: _given(value) for name, value in scope["path_params"].items()}
        await self._app(scope, receive, send)


def _given(value: Any) -> Any:
    return value.replace(_SLASH, "/") if isinstance(value, str) else value
