"""Programs out of Debian's or Ubuntu's own packages, downloaded and unpacked into a folder, never installed.

apt works in folders of its own here, so that neither root's rights nor the machine's package lists are needed; it
checks the signatures as always.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from shared import flock
from shared.errors import CannotStart

LIBRARY_PACKAGE = re.compile(r"^(lib(?!c6|crypt1)[a-z0-9.+-]+|zlib1g)$")
_DOWNLOAD_SECONDS = 600
_DOWNLOADED_BY_ANOTHER_SECONDS = 900
_NO_WEAK = tuple(f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"))


def possible() -> bool:
    """Whether this system has Debian's packages and the programs to read them."""
    return all(shutil.which(program) for program in ("apt-get", "apt-cache", "dpkg", "dpkg-deb"))


def fetch(root: Path, what: str, unpack_into: Callable[[Path], Path]) -> Path:
    """``root``; when it is missing, what ``unpack_into`` makes in a folder of its own: whole or not at all."""
    home = root.parent
    lock = flock.take(home / f"{root.name}.lock", _DOWNLOADED_BY_ANOTHER_SECONDS)
    if lock is None:
        raise CannotStart(f"another process has been unpacking {what} into {home} for a long time: look at it")
    try:
        if not root.is_dir():
            with tempfile.TemporaryDirectory(dir=home, prefix=f"{root.name}-", ignore_cleanup_errors=True) as scratch:
                unpack_into(Path(scratch)).rename(root)
    finally:
        os.close(lock)
    return root


def library_folders(root: Path) -> tuple[Path, ...]:
    """Where shared libraries lie that were unpacked because the machine lacks them."""
    patterns = ("lib/*-linux-*", "usr/lib/*-linux-*", "usr/lib/*-linux-*/pulseaudio")
    return tuple(folder for pattern in patterns for folder in root.glob(pattern))


def missing_libraries(root: Path, binaries: Iterable[Path]) -> set[str]:
    """Names of shared libraries that ``binaries`` ask for and neither ``root`` nor the machine has."""
    folders = ":".join(str(folder) for folder in library_folders(root))
    shown = subprocess.run(  # noqa: S603 - the system's loader, asked about files of the system's packages
        ["ldd", *map(str, binaries)],  # noqa: S607 - wherever the system keeps it
        env={**os.environ, "LC_ALL": "C", "LD_LIBRARY_PATH": folders},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return {line.split()[0] for line in shown.stdout.splitlines() if "not found" in line}


class Apt:
    """apt with its lists and its cache in one folder of ours; ``what`` it is for is said when it fails."""

    def __init__(self, folder: Path, what: str) -> None:
        self._folder = folder
        self._what = what
        for part in ("lists/partial", "cache/archives/partial", "debs"):
            (folder / part).mkdir(parents=True)
        self._options = [
            *("-o", f"Dir::State::lists={folder / 'lists'}"),
            *("-o", f"Dir::Cache={folder / 'cache'}"),
            *("-o", "Debug::NoLocking=1"),
            *("-o", "APT::Sandbox::User="),  # root's download user could not enter a private folder
            *("-o", "Acquire::Languages=none"),
            *("-o", "Acquire::Retries=2"),
        ]

    def update(self) -> None:
        """Read which packages there are."""
        # One dead source among many is no reason to stop: whether the packages are there shows afterwards.
        self._run("apt-get", "-q", "update", check=False)

    def needed_by(self, packages: Iterable[str], like: re.Pattern[str]) -> list[str]:
        """The packages with such names that these need, and that those need in turn."""
        asked, found = list(packages), set[str]()
        while asked:
            listed = self._run("apt-cache", "depends", *_NO_WEAK, *asked)
            fresh = {name for name in _first_choices(listed) if like.match(name)} - found
            found |= fresh
            asked = sorted(fresh)
        return sorted(found)

    def unpack(self, packages: Iterable[str], root: Path) -> None:
        """Have the files of ``packages`` below ``root``."""
        downloads = Path(tempfile.mkdtemp(dir=self._folder / "debs"))
        self._run("apt-get", "-q", "download", *packages, folder=downloads)
        for package in sorted(downloads.glob("*.deb")):
            self._run("dpkg-deb", "-x", str(package), str(root), with_options=False)

    def _run(
        self, program: str, *arguments: str, folder: Path | None = None, check: bool = True, with_options: bool = True
    ) -> str:
        try:
            done = subprocess.run(  # noqa: S603 - the system's package programs
                [program, *(self._options if with_options else []), *arguments],
                cwd=folder,
                env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_DOWNLOAD_SECONDS,
            )
        except subprocess.TimeoutExpired as exc:
            raise CannotStart(f"{program} {arguments[0]} took more than {_DOWNLOAD_SECONDS} s") from exc
        if check and done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise CannotStart(f"{self._what} could not be downloaded: {said[-1] if said else program + ' failed'}")
        return done.stdout


def _first_choices(listed: str) -> list[str]:
    """The names in what ``apt-cache depends`` says, without the alternatives ("|" promises one on the next line)."""
    names: list[str] = []
    alternative = False
    for line in listed.splitlines():
        mark, _, name = line.partition("Depends: ")
        if name and not alternative:
            names.append(name)
        alternative = mark.startswith(" |")
    return names
