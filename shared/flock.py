"""Lock files: who holds one is known for certain, because the kernel lets go when the last holder ends."""

import fcntl
import os
import time
from pathlib import Path


def take(path: Path, patience_seconds: float) -> int | None:
    """An open file that holds the lock until it is closed everywhere, or None when others keep it too long.

    A child that inherits the file holds the lock with us: it stays taken until that child has ended too.
    """
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(held)
                return None
            time.sleep(0.02)
        else:
            return held


def is_taken(path: Path) -> bool:
    """Whether somebody holds this lock now; a file that is not there is held by nobody."""
    if not path.is_file():
        return False
    held = take(path, 0)
    if held is None:
        return True
    os.close(held)
    return False
