"""`waybill run`: what it needs, what it waits for, what it refuses, and how it ends."""

import signal
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from shared.ports import free_ports
from shared.sealing import new_master_key
from tests.fakes.installation import SERVICES
from tests.fakes.product import STOP_SECONDS, Run, cleaned_up, eventually
from tests.fakes.wire import wire_to


def settings_for(database_url: str, amqp_url: str | None) -> dict[str, str]:
    """What every service needs, on free ports."""
    api, inbox = free_ports(2)
    needed = {
        "DATABASE_URL": database_url,
        "MASTER_KEYS": new_master_key(),
        "SMTP_URL": "smtp://127.0.0.1:1",
        "BIND": "127.0.0.1",
        "PORT": str(api),
        "INBOX_PORT": str(inbox),
    }
    return needed if amqp_url is None else needed | {"AMQP_URL": amqp_url}


@pytest.mark.parametrize("service", SERVICES)
async def test_each_service_runs_alone_and_ends_within_ten_seconds(
    service: str, database_url: str, amqp_url: str, tmp_path: Path
) -> None:
    async with cleaned_up(Run(service, tmp_path / "output", settings_for(database_url, amqp_url))) as running:
        await running.ready()
        async with httpx.AsyncClient(timeout=10) as client:
            assert (await client.get(f"{running.admin_url}/livez")).status_code == 200
            assert "waybill_" in (await client.get(f"{running.admin_url}/metrics")).text
        assert await running.stop() == 0
    assert "Traceback" not in running.text()


async def test_all_in_one_process_needs_no_broker_and_ends_with_ctrl_c(database_url: str, tmp_path: Path) -> None:
    settings = settings_for(database_url, None)
    async with cleaned_up(Run("all", tmp_path / "output", settings)) as running:
        await running.ready()
        async with httpx.AsyncClient(timeout=10) as client:
            answer = await client.post(f"http://127.0.0.1:{settings['PORT']}/api/v1/events", json={})
            assert answer.status_code == 401
            assert (await client.get(f"http://127.0.0.1:{settings['PORT']}/sandbox/messages")).status_code == 404
        running.send_to_group(signal.SIGINT)
        assert await running.ended(STOP_SECONDS) == 0


async def test_a_missing_schema_is_refused_with_the_command_that_makes_it(
    empty_database_url: str, tmp_path: Path
) -> None:
    async with cleaned_up(Run("all", tmp_path / "output", settings_for(empty_database_url, None))) as running:
        assert await running.ended() == 1
    assert "run `waybill db migrate`" in running.text()
    assert "Traceback" not in running.text()


async def test_a_lease_too_short_for_two_attempts_is_refused_with_the_numbers(
    database_url: str, amqp_url: str, tmp_path: Path
) -> None:
    settings = settings_for(database_url, amqp_url) | {"EMAIL_LEASE": "70s"}
    async with cleaned_up(Run("email", tmp_path / "output", settings)) as running:
        assert await running.ended() == 2
    assert "WAYBILL_EMAIL_LEASE=70s is too short" in running.text()
    assert "2 x WAYBILL_EMAIL_ATTEMPT_TIMEOUT (35s) + WAYBILL_LEASE_MARGIN (5s) = 75s" in running.text()
    assert "Traceback" not in running.text()


async def test_it_waits_for_postgres_and_says_so_meanwhile(database_url: str, tmp_path: Path) -> None:
    server = urlsplit(database_url)
    assert server.hostname and server.port
    async with wire_to(server.hostname, server.port) as wire:
        await wire.cut()
        behind_wire = server._replace(netloc=f"{server.netloc.rpartition(':')[0]}:{wire.port}").geturl()
        async with cleaned_up(Run("all", tmp_path / "output", settings_for(behind_wire, None))) as running:

            async def waits() -> bool:
                return "postgres.unreachable" in running.text()

            await eventually(waits, 60)
            async with httpx.AsyncClient(timeout=10) as client:
                answer = await client.get(f"{running.admin_url}/readyz")
                assert (answer.status_code, list(answer.json()["failing"])) == (503, ["postgres", "http"])
                assert (await client.get(f"{running.admin_url}/livez")).status_code == 200
            await wire.mend()
            await running.ready()
            assert await running.stop() == 0


async def test_a_broker_that_is_down_keeps_nothing_from_starting(database_url: str, tmp_path: Path) -> None:
    nowhere = f"amqp://waybill@127.0.0.1:{free_ports(1)[0]}/"
    async with cleaned_up(Run("ingest", tmp_path / "output", settings_for(database_url, nowhere))) as running:
        await running.ready()
        assert await running.stop() == 0


async def test_a_busy_port_is_one_line(database_url: str, tmp_path: Path) -> None:
    settings = settings_for(database_url, None)
    async with cleaned_up(Run("all", tmp_path / "first", settings)) as first:
        await first.ready()
        async with cleaned_up(Run("all", tmp_path / "second", settings | {"ADMIN_PORT": "0"})) as second:
            assert await second.ended() == 1
        assert second.text().strip().endswith(f"cannot listen on 127.0.0.1:{settings['PORT']}: Address already in use")
        assert await first.stop() == 0
