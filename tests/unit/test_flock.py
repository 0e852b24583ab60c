"""Lock files: one holder at a time, and none left behind by the dead."""

import os
import subprocess
import sys
from pathlib import Path

from shared import flock

HOLD_AND_WAIT = """
import sys
from pathlib import Path
from shared import flock
assert flock.take(Path(sys.argv[1]), 0) is not None
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_has_one_holder_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "some.lock"
    first = flock.take(path, 0)
    assert first is not None
    assert flock.take(path, 0) is None
    assert flock.is_taken(path)
    os.close(first)
    assert not flock.is_taken(path)
    second = flock.take(path, 0)
    assert second is not None
    os.close(second)


def test_a_missing_lock_file_is_held_by_nobody_and_not_made(tmp_path: Path) -> None:
    assert not flock.is_taken(tmp_path / "no.lock")
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_free_again_after_kill_minus_nine_of_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "some.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_AND_WAIT, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert flock.is_taken(path)
        holder.kill()
    taken = flock.take(path, 30)
    assert taken is not None
    os.close(taken)
