"""Homes for `waybill up` in tests: beside the clone's own, removed with whatever they left elsewhere."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.errors import CannotStart
from shared.store.place import discard
from tests.waiting import wait_until

BESIDE = Path(__file__).resolve().parents[2] / ".waybill"
_PREFIX = "up-test-"
_ABANDONED_SECONDS = 600.0


@contextmanager
def throw_away_home() -> Iterator[Path]:
    """A home nobody used before, not made yet; what killed runs of the suite left behind is removed first."""
    BESIDE.mkdir(mode=0o711, exist_ok=True)
    for folder in BESIDE.glob(f"{_PREFIX}*"):
        if time.time() - folder.stat().st_mtime > _ABANDONED_SECONDS and _discarded(folder / "home"):
            folder.rmdir()
    outer = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=BESIDE))
    outer.chmod(0o711)
    try:
        yield outer / "home"
    finally:
        _discard(outer / "home")


def _discard(home: Path) -> None:
    """Remove ``home``, once the Postgres of a killed `up` has ended too."""
    if home.exists():
        wait_until(lambda: _discarded(home))
    home.parent.rmdir()


def _discarded(home: Path) -> bool:
    try:
        discard(home)
    except CannotStart:
        return False
    return True


def postgres_pid(home: Path) -> int:
    """The process id of the Postgres whose data lies in ``home``."""
    ground = home / "place" if (home / "place").is_symlink() else home
    return int((ground / "postgres" / "cluster" / "postmaster.pid").read_text().split()[0])
