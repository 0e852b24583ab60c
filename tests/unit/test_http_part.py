"""An HTTP server is a part like any other: it starts, answers and stops with the process."""

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry, Counter

from shared.errors import StoreUnavailable
from shared.lifecycle import Heart, run_parts
from shared.web.admin import Check, admin_app
from shared.web.server import CannotListen, HttpPart, http_part

HOST = "127.0.0.1"


@contextlib.asynccontextmanager
async def _serving(part: HttpPart) -> AsyncIterator[httpx.AsyncClient]:
    stop = asyncio.Event()
    parts = asyncio.create_task(run_parts([part], stop))
    async with asyncio.timeout(30):
        await part.answering.wait()
        async with httpx.AsyncClient(base_url=f"http://{HOST}:{part.port}") as client:
            yield client
        stop.set()
        await parts


@contextlib.asynccontextmanager
async def _admin(
    checks: dict[str, Check], hearts: dict[str, Heart], registry: CollectorRegistry | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    app = admin_app(checks, hearts, registry or CollectorRegistry())
    async with _serving(http_part("admin", app, HOST, 0)) as client:
        yield client


def _lifespan(outcome: str) -> Callable[[Any, Any, Any], Awaitable[None]]:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": outcome})

    return app


async def test_port_0_takes_a_free_port_and_says_which() -> None:
    async with _admin({}, {}) as client:
        assert client.base_url.port
        assert (await client.get("/livez")).json() == {"status": "ok"}


async def test_the_port_is_free_again_after_the_stop() -> None:
    async with _admin({}, {}) as client:
        port = client.base_url.port
        await client.get("/livez")
    assert port is not None
    with contextlib.closing(socket.create_server((HOST, port))):
        pass


async def test_signals_stay_with_the_process() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    async with _admin({}, {}):
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_busy_port_is_refused_before_anything_runs() -> None:
    with contextlib.closing(socket.create_server((HOST, 0))) as taken, pytest.raises(CannotListen) as raised:
        http_part("admin", admin_app({}, {}), HOST, taken.getsockname()[1])
    assert raised.value.errno == errno.EADDRINUSE
    assert str(raised.value.port) in str(raised.value)


def test_an_address_that_is_not_ours_is_refused() -> None:
    with pytest.raises(CannotListen, match=r"192\.0\.2\.1"):
        http_part("admin", admin_app({}, {}), "192.0.2.1", 0)


async def test_an_application_that_does_not_start_is_an_error_not_an_exit() -> None:
    stop = asyncio.Event()
    part = http_part("broken", _lifespan("lifespan.startup.failed"), HOST, 0)
    async with asyncio.timeout(30):
        with pytest.raises(RuntimeError, match="the application of broken did not start"):
            await part.run(stop)
        stop.set()
        with pytest.raises(RuntimeError):
            await part.run(stop)


async def test_readiness_names_what_fails() -> None:
    async def well() -> None:
        return None

    async def behind() -> str:
        return "the schema is older than this release"

    async def down() -> None:
        raise StoreUnavailable("connection refused")

    checks: dict[str, Check] = {"sky": well}
    async with _admin(checks, {}) as client:
        assert (await client.get("/readyz")).status_code == 200
        checks |= {"schema": behind, "postgres": down}
        answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {
        "status": "failing",
        "failing": {"schema": "the schema is older than this release", "postgres": "connection refused"},
    }


async def test_a_check_that_hangs_is_a_failing_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.web.admin.CHECK_SECONDS", 0.01)

    async def hangs() -> None:
        await asyncio.Event().wait()

    async with _admin({"postgres": hangs}, {}) as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["failing"]) == (503, {"postgres": "no answer within 0.01 s"})


async def test_a_silent_loop_makes_the_process_not_alive() -> None:
    hearts = {"sweep": Heart()}
    async with _admin({}, hearts) as client:
        assert (await client.get("/livez")).status_code == 200
        hearts["claim"] = Heart(limit=timedelta(0))
        answer = await client.get("/livez")
    assert answer.status_code == 503
    assert set(answer.json()["silent_for_s"]) == {"claim"}


async def test_metrics_are_served_for_prometheus() -> None:
    registry = CollectorRegistry()
    Counter("waybill_things", "Things.", registry=registry).inc()
    async with _admin({}, {}, registry) as client:
        answer = await client.get("/metrics")
        assert (await client.get("/elsewhere")).status_code == 404
    assert answer.headers["content-type"].startswith("text/plain")
    assert "waybill_things_total 1.0" in answer.text
    assert "server" not in answer.headers
