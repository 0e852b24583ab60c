"""The virtual environment of a clone: .venv, installed from the hashed locks by plain pip (or uv)."""

import hashlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from shared.errors import CannotStart

_UNWANTED = ("PIP_REQUIRE_VIRTUALENV", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PYTHONHOME", "PYTHONPATH")
"""Settings that make pip install elsewhere, or Python look elsewhere. All others, such as PIP_CERT, stay."""
_QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_ROOT_USER_ACTION": "ignore"}
_MADE = "waybill.json"
_PROBE_SECONDS = 60


class Environment:
    """One clone's .venv and what is known to be installed in it."""

    def __init__(self, root: Path) -> None:
        """Look only; nothing is made yet."""
        self._root = root
        self._folder = root / ".venv"
        self._variables = {name: value for name, value in os.environ.items() if name not in _UNWANTED} | _QUIET
        self._passed: tuple[int, ...] = ()

    def program(self, name: str) -> Path:
        """A program installed in the environment."""
        return self._folder / "bin" / name

    def is_ready(self, *, for_development: bool) -> bool:
        """Whether everything is installed as the files of the clone want it."""
        return self._made() == self._wanted(for_development=for_development) and self._runs()

    def make_ready(self, held_lock: int, *, for_development: bool) -> None:
        """Install what is missing; an environment half made by a run that was killed is made anew.

        What is run for it keeps ``held_lock`` open: after a kill of ours the next run waits until it has ended.
        """
        self._passed = (held_lock,)
        wanted, made = self._wanted(for_development=for_development), self._made()
        if made.get("base") != wanted["base"] or not self._runs():
            made = {}
            self._make_anew()
            self._install("--require-hashes", "--no-deps", "-r", "requirements.lock")
            made["base"] = wanted["base"]
            self._remember(made)
        if for_development and made.get("development") != wanted["development"]:
            self._install("--require-hashes", "--no-deps", "-r", "requirements-dev.lock")
            made["development"] = wanted["development"]
            self._remember(made)
        if made.get("project") != wanted["project"]:
            self._install("--no-deps", "--no-build-isolation", "-e", ".")
            made["project"] = wanted["project"]
            self._remember(made)

    def _wanted(self, *, for_development: bool) -> dict[str, str]:
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        # The scripts name the folder they lie in: a clone that was moved needs new ones.
        base = self._fingerprint("requirements.lock", python, str(self._root))
        wanted = {"base": base, "project": self._fingerprint("pyproject.toml")}
        made = self._made()
        if for_development:
            wanted["development"] = self._fingerprint("requirements-dev.lock")
        elif "development" in made:
            wanted["development"] = made["development"]  # it does not disturb
        return wanted

    def _fingerprint(self, file: str, *more: str) -> str:
        return hashlib.sha256("\0".join([(self._root / file).read_text(), *more]).encode()).hexdigest()

    def _made(self) -> dict[str, str]:
        try:
            made = json.loads((self._folder / _MADE).read_text())
        except (OSError, ValueError):
            return {}
        return made if isinstance(made, dict) else {}

    def _remember(self, made: dict[str, str]) -> None:
        written = self._folder / f"{_MADE}.new"
        written.write_text(json.dumps(made))
        written.replace(self._folder / _MADE)

    def _runs(self) -> bool:
        try:
            tried = subprocess.run(  # noqa: S603 - our own interpreter
                [self.program("python"), "-c", ""], capture_output=True, timeout=_PROBE_SECONDS
            )
        except OSError:
            return False
        return tried.returncode == 0

    def _make_anew(self) -> None:
        if not _can_make_environments() and self._uv() is None:
            package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
            raise CannotStart(
                f"{sys.executable} cannot make virtual environments: install {package} (apt-get install {package})"
                " or uv (https://docs.astral.sh/uv)"
            )
        say(f"making .venv with Python {platform.python_version()} ({sys.executable})")
        if self._folder.is_dir() and not self._folder.is_symlink():
            shutil.rmtree(self._folder)
        uv = self._uv()
        maker = [sys.executable, "-m", "venv"] if uv is None else [uv, "venv", "--quiet", "--python", sys.executable]
        self._run([*maker, ".venv"], "making .venv")

    def _install(self, *arguments: str) -> None:
        what = "the project itself" if arguments[-2] == "-e" else f"what {arguments[-1]} lists"
        say(f"installing {what}")
        python = str(self.program("python"))
        uv = self._uv()
        pip = [python, "-m", "pip"] if uv is None else [uv, "pip"]
        where = [] if uv is None else ["--python", python]
        self._run([*pip, "install", "--quiet", *where, *arguments], f"installing {what}")

    def _uv(self) -> str | None:
        """uv, when this Python cannot do without."""
        return None if _can_make_environments() else shutil.which("uv")

    def _run(self, command: list[str], what: str) -> None:
        done = subprocess.run(  # noqa: S603 - pip, venv or uv
            command, cwd=self._root, env=self._variables, stdin=subprocess.DEVNULL, pass_fds=self._passed
        )
        if done.returncode != 0:
            raise CannotStart(f"{what} failed, see above; the same command again goes on from here")


def _can_make_environments() -> bool:
    # Debian and Ubuntu ship Python without them, in a package of their own.
    return all(importlib.util.find_spec(module) is not None for module in ("ensurepip", "venv"))


def say(line: str) -> None:
    """One line of progress, for whoever waits."""
    print(f"waybill: {line}", file=sys.stderr, flush=True)
