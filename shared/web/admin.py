"""The admin server of a process: /livez, /readyz and /metrics, on a port that is never published."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from shared.errors import WaybillError
from shared.lifecycle import Heart
from shared.metrics import REGISTRY

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, Scope

Check: TypeAlias = Callable[[], Awaitable[str | None]]
"""Asks one thing a process cannot work without: None when it is well, otherwise a sentence (or an error of ours)."""

CHECK_SECONDS = 2.0
_JSON = "application/json"


async def failing(checks: Mapping[str, Check]) -> dict[str, str]:
    """What is not well, by the name of its check; empty when the process is ready. Never longer than 2 s."""
    answers = await asyncio.gather(*(_ask(check) for check in checks.values()))
    return {name: answer for name, answer in zip(checks, answers, strict=True) if answer is not None}


def admin_app(
    checks: Mapping[str, Check], hearts: Mapping[str, Heart], registry: CollectorRegistry = REGISTRY
) -> "ASGI3Application":
    """An ASGI application: ``checks`` decide /readyz, the ``hearts`` of the process's loops /livez.

    Both mappings are read at every request, so that parts may join later.
    """

    async def app(scope: "Scope", receive: "ASGIReceiveCallable", send: "ASGISendCallable") -> None:
        if scope["type"] == "lifespan":
            return await _live(receive, send)
        if scope["type"] != "http":
            return None
        match scope["path"]:
            case "/livez":
                late = {name: round(h.age_seconds(), 1) for name, h in hearts.items() if not h.is_alive()}
                await _answer(send, 503 if late else 200, _state("silent_for_s", late))
            case "/readyz":
                causes = await failing(checks)
                await _answer(send, 503 if causes else 200, _state("failing", causes))
            case "/metrics":
                await _answer(send, 200, generate_latest(registry), CONTENT_TYPE_LATEST)
            case _:
                await _answer(send, 404, msgspec.json.encode({"status": "not found"}))

    return app


async def _ask(check: Check) -> str | None:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check()
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:g} s"
    except WaybillError as exc:
        return str(exc)


def _state(key: str, causes: Mapping[str, object]) -> bytes:
    return msgspec.json.encode({"status": "failing", key: causes} if causes else {"status": "ok"})


async def _answer(send: "ASGISendCallable", status: int, body: bytes, content_type: str = _JSON) -> None:
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers, "trailers": False})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _live(receive: "ASGIReceiveCallable", send: "ASGISendCallable") -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})
