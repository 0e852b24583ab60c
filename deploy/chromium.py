"""Finding a Chromium that tests can drive: on this machine, else unpacked from its packages, never installed."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from deploy.packages import LIBRARY_PACKAGE, Apt, fetch, library_folders, missing_libraries, possible
from shared.errors import CannotStart

FORCE_UNPACK = "WAYBILL_TEST_CHROMIUM"
_ON_PATH = ("chromium", "chromium-browser")
_PACKAGES = ("chromium", "chromium-common")
_PROGRAM = "usr/lib/chromium/chromium"


@dataclass(frozen=True, slots=True)
class Chromium:
    """A Chromium to run, and libraries it brings along."""

    program: Path
    libraries: tuple[Path, ...] = ()

    @property
    def environment(self) -> dict[str, str]:
        """The environment to run it in."""
        if not self.libraries:
            return dict(os.environ)
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, self.libraries))}


def find_or_fetch(home: Path) -> Chromium:
    """A Chromium of this machine, else one unpacked into ``home/chromium`` (which is kept for the next time).

    Raises CannotStart saying what to install when there is no way.
    """
    found = next((path for name in _ON_PATH if (path := shutil.which(name))), None)
    if found is not None and os.environ.get(FORCE_UNPACK) != "unpack":
        return Chromium(Path(found))
    if not possible():
        raise CannotStart("there is no Chromium for the tests: install it (Debian: apt-get install chromium)")
    root = fetch(home / "chromium", "Chromium", _unpack_into)
    return Chromium(root / _PROGRAM, library_folders(root))


def _unpack_into(scratch: Path) -> Path:
    print("Downloading Chromium's packages (100 to 200 MB, once)", file=sys.stderr, flush=True)
    apt, root = Apt(scratch / "apt", "Chromium"), scratch / "root"
    apt.update()
    apt.unpack(_PACKAGES, root)
    program = root / _PROGRAM
    if not program.is_file():
        # Ubuntu's package only fetches a snap.
        raise CannotStart("this system's package chromium brings no Chromium")
    if missing_libraries(root, [program]):
        apt.unpack(apt.needed_by(_PACKAGES, LIBRARY_PACKAGE), root)
        if missing := missing_libraries(root, [program]):
            raise CannotStart(f"Chromium needs {', '.join(sorted(missing))}, which its packages do not bring")
    return root
