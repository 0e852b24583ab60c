"""A RabbitMQ node that does not come up says so in time, with its own words, and leaves nothing running."""

from pathlib import Path

import pytest

from deploy.rabbitmq.find import Distribution
from deploy.rabbitmq.node import RabbitNode
from shared.errors import CannotStart
from tests.waiting import is_running, wait_until


def broken(real: Distribution, folder: Path, script: str) -> Distribution:
    """A RabbitMQ whose start script does something else, with a real epmd beside it."""
    server = folder / "rabbitmq-server"
    server.write_text(f"#!/bin/sh\n{script}\n")
    server.chmod(0o755)
    return Distribution(folder, real.erlang_bin, real.libraries)


def test_a_node_that_ends_at_once_quotes_the_end_of_its_log(rabbit: RabbitNode, tmp_path: Path) -> None:
    script = "echo no space left on device; exit 1"
    node = RabbitNode(broken(rabbit.distribution, tmp_path, script), tmp_path / "home")
    with pytest.raises(CannotStart, match=r"(?s)RabbitMQ ended at once.*no space left on device"):
        node.start()
    assert not node.alive()


def test_a_node_that_never_answers_is_given_up_and_ended(rabbit: RabbitNode, tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/pid; exec sleep 600"
    node = RabbitNode(broken(rabbit.distribution, tmp_path, script), tmp_path / "home", ready_within_seconds=3)
    with pytest.raises(CannotStart, match="did not answer within 3 s"):
        node.start()
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_running(pid))


def test_stop_and_start_keep_vhosts_and_wipe_forgets_them(rabbit: RabbitNode, tmp_path: Path) -> None:
    node = RabbitNode(rabbit.distribution, tmp_path / "home")
    try:
        node.start()
        node.create_vhost("kept")
        node.stop()
        assert not node.alive()
        node.start()
        assert node.management.call("GET", "/vhosts/kept")["name"] == "kept"
        node.wipe()
        assert not node.alive()
        assert not (tmp_path / "home").exists()
    finally:
        node.wipe()
