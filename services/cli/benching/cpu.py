"""The CPU time of a server's processes, and of the whole machine: /proc on Linux, ps elsewhere."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PS_SECONDS = 10


def tree_cpu_seconds(root: int, proc: Path = Path("/proc")) -> float | None:
    """CPU seconds of process ``root`` and its children so far, those that have ended included where the system tells.

    None when the system does not show them to us.
    """
    spent = list(_from_proc(root, proc) if (proc / "self" / "stat").exists() else _from_ps(root))
    return sum(spent) if spent else None


def machine_cpu_seconds(proc: Path = Path("/proc")) -> float | None:
    """CPU seconds that anybody on this machine has used so far, or None when the system does not tell."""
    try:
        first, *_ = (proc / "stat").read_text().splitlines()
    except OSError:
        return None
    # cpu user nice system idle iowait irq softirq steal …
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(field) for field in first.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _from_proc(root: int, proc: Path) -> Iterator[float]:
    ticks = os.sysconf("SC_CLK_TCK")
    for process in proc.iterdir():
        if not process.name.isdigit():
            continue
        with suppress(OSError):
            # pid (comm) state ppid … utime stime cutime cstime …; a comm may contain spaces and brackets.
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            if root in (int(process.name), int(fields[1])):
                yield sum(int(field) for field in fields[11:15]) / ticks


def _from_ps(root: int) -> Iterator[float]:
    try:
        shown = subprocess.run(
            ["/bin/ps", "-axo", "pid=,ppid=,time="], capture_output=True, text=True, timeout=_PS_SECONDS
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return
    for line in shown.splitlines():
        pid, parent, spent = line.split()
        if root in (int(pid), int(parent)):
            yield seconds_of(spent)


def seconds_of(shown: str) -> float:
    """The seconds in what ps shows as ``[[days-]hours:]minutes:seconds``."""
    days, _, clock = shown.rpartition("-")
    seconds = 0.0
    for part in clock.split(":"):
        seconds = 60 * seconds + float(part)
    return seconds + 86_400 * int(days or 0)
