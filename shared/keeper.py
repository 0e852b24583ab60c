"""Server processes that end when we end, however we end: a small keeper between us and them watches a pipe.

The kernel closes our end of the pipe even at kill -9, on every system; the keeper then ends the server in order.
Run as a program, this file is the keeper.
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

PR_SET_PDEATHSIG = 1
_START_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Account:
    """The user a server runs as when we are root ourselves."""

    name: str
    user_id: int
    group_id: int


@dataclass(frozen=True, slots=True)
class Ending:
    """One step of ending a server: a signal, and how long it may take to obey before the next step."""

    signal: signal.Signals
    seconds: float


class _Order(TypedDict):
    command: list[str]
    account: tuple[int, int] | None
    endings: list[tuple[int, float]]
    lock: int | None


class KeptProcess:
    """A running server and the keeper that ends it when this process is gone."""

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        endings: Sequence[Ending],
        environment: dict[str, str],
        account: Account | None = None,
        held_lock: int | None = None,
    ) -> None:
        """Start ``command``; its output is appended to ``log``, and it keeps ``held_lock`` open while it lives."""
        order: _Order = {
            "command": [str(part) for part in command],
            "account": None if account is None else (account.user_id, account.group_id),
            "endings": [(int(ending.signal), ending.seconds) for ending in endings],
            "lock": held_lock,
        }
        self._patience = sum(ending.seconds for ending in endings) + 2
        with log.open("ab") as output:
            self._keeper = subprocess.Popen(  # noqa: S603 - the interpreter we run in, and this file
                [sys.executable, "-I", "-S", str(Path(__file__).resolve()), json.dumps(order)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=environment,
                cwd="/",
                pass_fds=() if held_lock is None else (held_lock,),
                start_new_session=True,
            )
        self.pid = self._read_pid()

    def alive(self) -> bool:
        """Whether the server runs."""
        return self._keeper.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send the server a signal; nothing happens when it has ended."""
        if self.alive():
            os.kill(self.pid, number)

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for the server to end by itself; False when it still runs then."""
        try:
            self._keeper.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """End the server in order, and by force when it does not obey; returns when it is gone."""
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            if pipe is not None:
                pipe.close()
        if not self.wait(self._patience):
            self._keeper.kill()
            self._keeper.wait()

    def _read_pid(self) -> int:
        line = b""
        report = self._keeper.stdout
        if report is not None and select.select([report], [], [], _START_SECONDS)[0]:
            line = report.readline()
        if not line:
            self.stop()
            raise OSError("the server could not be started")
        return int(line)


def _obey(order: _Order) -> int:
    """The keeper's life: start the server, report its pid, and end it when the pipe from our parent closes."""
    # A real function, not SIG_IGN: an ignored signal would stay ignored in the server.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    as_account: dict[str, Any] = {}
    if order["account"] is not None:
        user_id, group_id = order["account"]
        as_account = {"user": user_id, "group": group_id, "extra_groups": []}
    server = subprocess.Popen(  # noqa: S603 - what our parent ordered
        order["command"],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        stderr=sys.stderr,
        pass_fds=() if order["lock"] is None else (order["lock"],),
        preexec_fn=_end_with_keeper(order["endings"][0][0]),  # noqa: PLW1509 - system calls only, before the program starts
        start_new_session=True,
        **as_account,
    )
    print(server.pid, flush=True)  # noqa: T201 - it speaks to its parent over its output
    threading.Thread(target=_end_when_orphaned, args=(server, order["endings"]), daemon=True).start()
    code = server.wait()
    _kill_group(server.pid)
    return code


def _end_when_orphaned(server: subprocess.Popen[bytes], endings: list[tuple[int, float]]) -> None:
    while os.read(0, 1):
        pass
    for number, seconds in endings:
        server.send_signal(number)
        try:
            server.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
        return
    _kill_group(server.pid)


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _end_with_keeper(first_signal: int) -> Callable[[], None] | None:
    """What makes the server end when even the keeper is killed: only Linux can."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(PR_SET_PDEATHSIG, first_signal)


if __name__ == "__main__":
    sys.exit(_obey(json.loads(sys.argv[1])) & 0xFF)
