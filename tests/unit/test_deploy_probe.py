"""The image's health check says what the admin pages say."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from deploy.probe import address
from shared.lifecycle import Heart, run_parts
from shared.ports import free_ports
from shared.settings import TABLE
from shared.web.admin import Check, admin_app
from shared.web.server import http_part

PROBE = Path(__file__).resolve().parents[2] / "deploy" / "probe.py"
Done = subprocess.CompletedProcess[str]


@asynccontextmanager
async def _admin_pages(checks: dict[str, Check], hearts: dict[str, Heart]) -> AsyncIterator[int]:
    stop = asyncio.Event()
    part = http_part("admin", admin_app(checks, hearts, CollectorRegistry()), "127.0.0.1", 0)
    running = asyncio.create_task(run_parts([part], stop))
    try:
        async with asyncio.timeout(30):
            await part.answering.wait()
        yield part.port
    finally:
        stop.set()
        await running


async def _probe(port: int, page: str) -> Done:
    return await asyncio.to_thread(_run, port, page)


def _run(port: int, page: str) -> Done:
    return subprocess.run(
        [sys.executable, "-IS", PROBE, page],
        env={"WAYBILL_ADMIN_PORT": str(port)},
        capture_output=True,
        text=True,
        timeout=30,
    )


async def _postgres_is_gone() -> str | None:
    return "Postgres does not answer"


async def test_a_process_that_is_well_passes_both_pages() -> None:
    async with _admin_pages({}, {"claims": Heart()}) as port:
        for page in ("/livez", "/readyz"):
            done = await _probe(port, page)
            assert (done.returncode, done.stdout) == (0, '{"status":"ok"}\n')


async def test_one_that_is_not_ready_fails_that_page_only_and_says_why() -> None:
    async with _admin_pages({"postgres": _postgres_is_gone}, {}) as port:
        ready, live = await _probe(port, "/readyz"), await _probe(port, "/livez")
    assert ready.returncode == 1
    assert "Postgres does not answer" in ready.stdout
    assert live.returncode == 0


async def test_one_whose_loop_is_stuck_fails_livez() -> None:
    async with _admin_pages({}, {"claims": Heart(limit=timedelta(0))}) as port:
        done = await _probe(port, "/livez")
    assert done.returncode == 1
    assert "claims" in done.stdout


async def test_where_nobody_listens_it_fails_with_the_address() -> None:
    (port,) = free_ports(1)
    done = await _probe(port, "/livez")
    assert done.returncode == 1
    assert f"no answer from 127.0.0.1:{port}" in done.stdout


@pytest.mark.parametrize(
    ("environ", "host", "port"),
    [
        ({}, "127.0.0.1", int(TABLE["ADMIN_PORT"].default or 0)),
        ({"WAYBILL_BIND": "::", "WAYBILL_ADMIN_PORT": ""}, "127.0.0.1", 9090),
        ({"WAYBILL_BIND": "10.1.2.3", "WAYBILL_ADMIN_PORT": "9191"}, "10.1.2.3", 9191),
    ],
)
def test_it_asks_where_the_process_listens(environ: dict[str, str], host: str, port: int) -> None:
    assert address(environ) == (host, port)
