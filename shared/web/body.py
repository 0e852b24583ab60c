"""Taking the body of a request off the wire: its media type, its size, its time, then the strict reading."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from litestar import Request
from litestar.exceptions import InternalServerException

from shared.web.problems import problem
from shared.web.strict import parse_json

AnyRequest: TypeAlias = "Request[Any, Any, Any]"

LARGEST_BODY = 256 * 1024
BODY_SECONDS = 30.0


async def read_json(request: AnyRequest) -> Any:
    """The value in the body of ``request``.

    Raises Problem: 415 for anything but JSON, 413 above the size the route allows (``request_max_body_size``,
    raised by Litestar as soon as it is known), 408 when it does not arrive, 400 when it is malformed.
    """
    _check_media_type(request)
    return parse_json(await read_body(request))


async def read_body(request: AnyRequest) -> bytes:
    """The body of ``request`` as it came. Raises Problem: 408 when it does not arrive, 400 when it is cut off."""
    async with _arriving():
        return await request.body()


async def read_beginning(request: AnyRequest, most: int, see: Callable[[bytes], object]) -> bytes:
    """The first ``most`` bytes of the body; all of it passes by ``see``, piece by piece. Raises as ``read_body``."""
    kept = bytearray()
    async with _arriving():
        async for chunk in request.stream():
            see(chunk)
            kept += chunk[: max(most - len(kept), 0)]
    return bytes(kept)


@asynccontextmanager
async def _arriving() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            yield
    except TimeoutError as exc:
        raise problem("body_too_slow", f"The body did not arrive within {BODY_SECONDS:g} seconds.") from exc
    except InternalServerException as exc:
        raise problem("bad_request", "The connection was closed before the body had arrived.") from exc


async def read_json_if_any(request: AnyRequest) -> Any:
    """The value in the body of ``request``, {} when it has none: for operations whose fields may all be left out."""
    headers = request.headers
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    return await read_json(request) if has_body else {}


def _check_media_type(request: AnyRequest) -> None:
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise problem("unsupported_media_type", "The body must not be compressed.")
    media_type, _, parameters = request.headers.get("content-type", "").partition(";")
    if media_type.strip().lower() != "application/json":
        given = f"not {media_type.strip()[:100]}" if media_type.strip() else "there is none"
        raise problem("unsupported_media_type", f"Content-Type must be application/json, {given}.")
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in ("utf-8", "utf8"):
            raise problem("unsupported_media_type", "The body must be in UTF-8.")
