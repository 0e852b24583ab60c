"""Servers end with the process that started them, whatever ends that process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shared.keeper import Ending, KeptProcess
from tests.waiting import DEADLINE_SECONDS, is_running, wait_until

GENTLE = (Ending(signal.SIGINT, 10), Ending(signal.SIGKILL, 5))
OBEDIENT = "import signal, time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
OWNER = """
import signal, sys, time
from pathlib import Path
from shared.keeper import Ending, KeptProcess
server = KeptProcess([sys.executable, "-c", sys.argv[2]], log=Path(sys.argv[1]),
    endings=(Ending(signal.SIGINT, 10), Ending(signal.SIGKILL, 5)), environment={})
print(server.pid, flush=True)
time.sleep(600)
"""


def started(code: str, log: Path) -> KeptProcess:
    server = KeptProcess([sys.executable, "-c", code], log=log, endings=GENTLE, environment={})
    wait_until(lambda: "up" in log.read_text())
    return server


def test_stop_ends_the_server_with_the_first_signal(tmp_path: Path) -> None:
    server = started(OBEDIENT, tmp_path / "log")
    assert server.alive()
    server.stop()
    assert not server.alive()
    assert not is_running(server.pid)
    assert "KeyboardInterrupt" in (tmp_path / "log").read_text()


def test_a_server_that_ignores_the_first_signal_gets_the_next(tmp_path: Path) -> None:
    endings = (Ending(signal.SIGINT, 0.2), Ending(signal.SIGKILL, 5))
    log = tmp_path / "log"
    server = KeptProcess([sys.executable, "-c", STUBBORN], log=log, endings=endings, environment={})
    wait_until(lambda: "up" in log.read_text())
    server.stop()
    assert not is_running(server.pid)


def test_a_server_that_ends_by_itself_is_not_alive(tmp_path: Path) -> None:
    server = KeptProcess([sys.executable, "-c", "pass"], log=tmp_path / "log", endings=GENTLE, environment={})
    assert server.wait(DEADLINE_SECONDS)
    assert not server.alive()
    server.stop()


def test_a_program_that_is_not_there_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="could not be started"):
        KeptProcess([tmp_path / "nothing"], log=tmp_path / "log", endings=GENTLE, environment={})


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_ends_when_its_owner_is_killed(tmp_path: Path, signal_number: signal.Signals) -> None:
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", OWNER, str(log), OBEDIENT], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        server_pid = int(owner.stdout.readline())
        wait_until(lambda: "up" in log.read_text())
        owner.send_signal(signal_number)
    wait_until(lambda: not is_running(server_pid))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_the_server_ends_when_even_its_keeper_is_killed(tmp_path: Path) -> None:
    server = started(OBEDIENT, tmp_path / "log")
    keeper_pid = int(Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper_pid, signal.SIGKILL)
    wait_until(lambda: not is_running(server.pid))
    server.stop()
