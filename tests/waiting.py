"""Waiting for what other processes do: a condition with a generous deadline, never a fixed pause."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

DEADLINE_SECONDS = 30.0


def wait_until(holds: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
    """Return as soon as ``holds()``; fails the test when it never does. For tests outside the event loop."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"still not so after {seconds:g} s"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended but was not collected by its parent does not."""
    if Path("/proc/self/stat").exists():
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return shown != "" and not shown.startswith("Z")
