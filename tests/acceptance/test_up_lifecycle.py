"""How `waybill up` ends, whatever ends it, and how it comes back."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from shared import flock
from tests.fakes.home import postgres_pid, throw_away_home
from tests.fakes.product import STOP_SECONDS, WAYBILL, Up, clean_environment, cleaned_up, eventually
from tests.waiting import is_running


@pytest.fixture
async def up(tmp_path: Path) -> AsyncIterator[Up]:
    """A `waybill up` that has just been started."""
    with throw_away_home() as home:
        async with cleaned_up(Up(home, tmp_path / "output")) as product:
            yield product


async def gone(pid: int) -> None:
    """Return once the process has ended."""

    async def ended() -> bool:
        return not is_running(pid)

    await eventually(ended)


async def test_sigterm_ends_everything_and_the_next_start_has_the_same_keys(up: Up, tmp_path: Path) -> None:
    first = await up.ready()
    postgres = postgres_pid(up.home)
    assert await up.stop() == 0
    assert not is_running(postgres)
    assert not (up.home / "up.json").exists()
    async with cleaned_up(Up(up.home, tmp_path / "second")) as again:
        second = await again.ready()
        keys = [
            {name: told["tenants"]["campus"][name] for name in ("live_key", "test_key")} for told in (first, second)
        ]
        assert keys[0] == keys[1]
        assert first["operator_token"] == second["operator_token"]
        await again.stop()


async def test_ctrl_c_reaches_the_whole_group_and_ends_everything(up: Up) -> None:
    await up.ready()
    postgres = postgres_pid(up.home)
    up.send_to_group(signal.SIGINT)
    assert await up.ended(STOP_SECONDS) == 0
    assert not is_running(postgres)
    assert "Traceback" not in up.text()


async def test_kill_9_leaves_no_postgres_behind_and_the_next_start_works(up: Up, tmp_path: Path) -> None:
    first = await up.ready()
    postgres = postgres_pid(up.home)
    up.kill()
    await gone(postgres)
    assert (up.home / "up.json").exists()
    async with cleaned_up(Up(up.home, tmp_path / "second")) as again:
        second = await again.ready()
        assert second["tenants"]["campus"]["live_key"] == first["tenants"]["campus"]["live_key"]
        assert second["api_url"] == again.api_url
        await again.stop()


async def test_a_stop_while_it_starts_is_a_stop(up: Up) -> None:
    async def starting() -> bool:
        return flock.is_taken(up.home / "up.lock") and "Starting Postgres" in up.text()

    await eventually(starting)
    assert await up.stop() == 0
    assert not (up.home / "up.json").exists()


async def test_it_ends_when_postgres_does_and_says_so(up: Up) -> None:
    await up.ready()
    os.kill(postgres_pid(up.home), signal.SIGKILL)
    assert await up.ended() == 1
    assert "Postgres has ended by itself" in up.text()


async def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    script = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"
    with throw_away_home() as home:
        up = Up(home, tmp_path / "unused")
        up.kill()
        with (tmp_path / "output").open("wb") as output:
            parent = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", script, str(WAYBILL), "up"), env=clean_environment(up.settings), stdout=output
            )
        try:

            async def child() -> int | None:
                written = (home / "up.lock").read_text().strip() if (home / "up.json").exists() else ""
                return int(written) if written else None

            pid = await eventually(child, 90)
            async with httpx.AsyncClient() as client:
                assert (await client.get(f"{up.api_url}/readyz")).status_code == 200
        finally:
            parent.kill()
            await parent.wait()
        await gone(pid)
        assert not (home / "up.json").exists()
