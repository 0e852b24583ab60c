"""Busy ports are named with their owner and the mend, all of them at once."""

import os
import socket
from collections.abc import Iterator

import pytest

from services.cli.exits import CommandFailed
from services.cli.owner import owner_of_port
from services.cli.ports import WantedPort, require_free
from shared.ports import free_ports

HERE = "127.0.0.1"


@pytest.fixture
def listeners() -> Iterator[list[socket.socket]]:
    """Two sockets of this process that listen, so that their ports are busy."""
    made = [socket.create_server((HERE, port)) for port in free_ports(2)]
    yield made
    for one in made:
        one.close()


def _port(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


def test_free_ports_are_fine() -> None:
    require_free(HERE, [WantedPort("PORT", port) for port in free_ports(3)])


def test_every_busy_port_is_named_with_its_owner_and_another_free_one(listeners: list[socket.socket]) -> None:
    busy = [_port(listener) for listener in listeners]
    with pytest.raises(CommandFailed) as refused:
        require_free(HERE, [WantedPort("PORT", busy[0]), WantedPort("INBOX_PORT", busy[1])])
    first, second = str(refused.value).splitlines()
    assert f"port {busy[0]} is taken by process {os.getpid()} (" in first
    assert "WAYBILL_PORT=" in first
    assert f"port {busy[1]} is taken by process {os.getpid()} (" in second
    assert "WAYBILL_INBOX_PORT=" in second


def test_a_port_that_listens_on_every_address_is_busy_too() -> None:
    with socket.create_server(("0.0.0.0", free_ports(1)[0])) as listener:  # noqa: S104 - what is tested
        with pytest.raises(CommandFailed, match="is taken by process"):
            require_free(HERE, [WantedPort("PORT", _port(listener))])


def test_two_settings_cannot_choose_one_port() -> None:
    (port,) = free_ports(1)
    with pytest.raises(CommandFailed, match=f"WAYBILL_PORT and WAYBILL_SMTP_SINK_PORT are both {port}"):
        require_free(HERE, [WantedPort("PORT", port), WantedPort("SMTP_SINK_PORT", port)])


def test_port_zero_means_any_free_one_and_may_be_chosen_twice() -> None:
    require_free(HERE, [WantedPort("PORT", 0), WantedPort("INBOX_PORT", 0)])


def test_an_address_that_is_not_ours_is_said_to_be_so() -> None:
    with pytest.raises(CommandFailed, match=r"WAYBILL_PORT: cannot listen on 192\.0\.2\.1:"):
        require_free("192.0.2.1", [WantedPort("PORT", free_ports(1)[0])])


def test_nobody_owns_a_free_port() -> None:
    assert owner_of_port(free_ports(1)[0]) is None
