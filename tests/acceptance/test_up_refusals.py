"""What `waybill up` refuses before it starts anything: busy ports and wrong settings, all at once."""

import os
import socket
from contextlib import ExitStack
from pathlib import Path

from shared.ports import free_ports
from tests.fakes.home import throw_away_home
from tests.fakes.product import Up, cleaned_up


async def test_every_busy_port_names_its_owner_and_the_mend(tmp_path: Path) -> None:
    busy = dict(zip(("PORT", "SMTP_SINK_PORT", "BOUNCE_PORT", "ADMIN_PORT"), free_ports(4), strict=True))
    with ExitStack() as stack:
        home = stack.enter_context(throw_away_home())
        for port in busy.values():
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        chosen = {name: str(port) for name, port in busy.items()}
        async with cleaned_up(Up(home, tmp_path / "output", chosen)) as up:
            assert await up.ended() == 1
        assert not (home / "postgres").exists()
    for line, (name, port) in zip(up.text().splitlines(), busy.items(), strict=True):
        assert f"port {port} is taken by process {os.getpid()} (" in line
        assert f"WAYBILL_{name}=" in line


async def test_every_wrong_setting_is_said_at_once_and_nothing_is_made(tmp_path: Path) -> None:
    wrong = {"PROT": "8080", "INBOX_PORT": "eight", "EMAIL_LEASE": "10s", "LOG_LEVEL": "loud"}
    with throw_away_home() as home:
        async with cleaned_up(Up(home, tmp_path / "output", wrong)) as up:
            assert await up.ended() == 2
        assert not home.exists()
    said = up.text()
    assert "WAYBILL_PROT is not a setting: did you mean WAYBILL_PORT?" in said
    assert "WAYBILL_INBOX_PORT must be a port" in said
    assert "WAYBILL_EMAIL_LEASE=10s is too short" in said
    assert "WAYBILL_LOG_LEVEL must be one of" in said
    assert len(said.splitlines()) == len(wrong)


async def test_a_database_that_does_not_answer_is_one_line_and_exit_code_3(tmp_path: Path) -> None:
    nowhere = {"DATABASE_URL": f"postgresql://waybill@127.0.0.1:{free_ports(1)[0]}/waybill"}
    with throw_away_home() as home:
        async with cleaned_up(Up(home, tmp_path / "output", nowhere)) as up:
            assert await up.ended() == 3
    assert len(up.text().splitlines()) == 1
