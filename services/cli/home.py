"""The folder in which `waybill up` keeps what is its own, and the lock that lets one `up` run in it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services.cli.exits import CommandFailed
from services.cli.upfile import UpFile
from shared import flock

ROOT = Path(__file__).resolve().parents[2]
"""The clone (or wherever the packages are installed)."""
FOLDER = ".waybill"
LOCK = "up.lock"


def make_home(data_dir: Path | None) -> Path:
    """The folder ``WAYBILL_DATA_DIR``, or .waybill in the clone, made when missing and closed to others."""
    home = home_at(data_dir)
    home.mkdir(mode=0o700, exist_ok=True)
    return home


def home_at(data_dir: Path | None) -> Path:
    """Where ``make_home`` makes it, whether it is there or not."""
    return (ROOT / FOLDER if data_dir is None else data_dir).absolute()


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Hold the lock of ``home`` for the block; CommandFailed says where the one that has it answers."""
    held = flock.take(home / LOCK, 0)
    if held is None:
        raise CommandFailed(_already_running(home))
    try:
        os.ftruncate(held, 0)
        os.write(held, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(held)


def _already_running(home: Path) -> str:
    pid = (home / LOCK).read_text().strip()
    who = f"process {pid}" if pid else "another process"
    url = UpFile(home).api_url()
    if url is None:
        return f"already running: {who} is starting in {home}"
    return f"already running: {url} ({who}, data in {home})"
