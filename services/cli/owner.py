"""Who listens on a port: /proc on Linux, lsof elsewhere, as far as the system lets us see."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LISTENING = "0A"
"""The state LISTEN in /proc/net/tcp (include/net/tcp_states.h)."""
_LONGEST_COMMAND = 80
_LSOF_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, as it is told to a person."""

    pid: int
    command: str


def owner_of_port(port: int, proc: Path = Path("/proc")) -> Owner | None:
    """The process that listens on TCP ``port``, or None when the system does not show it to us."""
    if (proc / "net" / "tcp").exists():
        return _from_proc(port, proc)
    return _from_lsof(port)


def _from_proc(port: int, proc: Path) -> Owner | None:
    wanted = {f"socket:[{inode}]" for inode in _inodes(port, proc)}
    if not wanted:
        return None
    for process in proc.iterdir():
        if process.name.isdigit() and not wanted.isdisjoint(_open_files(process)):
            return Owner(int(process.name), _command(process))
    return None


def _inodes(port: int, proc: Path) -> Iterator[str]:
    for table in (proc / "net" / "tcp", proc / "net" / "tcp6"):
        if not table.exists():
            continue
        for line in table.read_text().splitlines()[1:]:
            # sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _open_files(process: Path) -> Iterator[str]:
    """What the process has open; nothing when it has ended meanwhile, or is not ours to look into."""
    try:
        files = list((process / "fd").iterdir())
    except OSError:
        return
    for file in files:
        with suppress(OSError):
            yield os.readlink(file)  # noqa: PTH115 - the target as it is written, not resolved


def _command(process: Path) -> str:
    try:
        words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        words = ""
    return _shorten(words)


def _from_lsof(port: int) -> Owner | None:
    program = shutil.which("lsof")
    if program is None:
        return None
    try:
        shown = subprocess.run(  # noqa: S603 - a system program and a number
            [program, "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fpc"],
            capture_output=True,
            text=True,
            timeout=_LSOF_SECONDS,
        ).stdout
    except subprocess.TimeoutExpired:
        return None
    fields = {line[:1]: line[1:] for line in reversed(shown.splitlines())}
    return Owner(int(fields["p"]), _shorten(fields.get("c", ""))) if fields.get("p", "").isdigit() else None


def _shorten(command: str) -> str:
    if len(command) > _LONGEST_COMMAND:
        command = command[: _LONGEST_COMMAND - 1] + "…"
    return command or "unknown command"
