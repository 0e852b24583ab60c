"""The settings of a short command: the environment's, and beside a running `waybill up` what that one goes by."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from services.cli.exits import complain
from services.cli.home import LOCK, home_at
from services.cli.kept import master_key_in
from services.cli.upfile import UpFile
from shared import flock
from shared.errors import SettingsError
from shared.settings import PREFIX, TABLE, Settings, check_environment, load_settings

S = TypeVar("S", bound=Settings)

DATABASE_URL = f"{PREFIX}DATABASE_URL"
MASTER_KEYS = f"{PREFIX}MASTER_KEYS"
DATA_DIR = f"{PREFIX}DATA_DIR"


@dataclass(frozen=True, slots=True)
class Beside:
    """What a running `up` tells commands. ``keys_file`` None: its master keys came from its own environment."""

    database_url: str
    keys_file: Path | None


def read_settings(cls: type[S]) -> S:
    """The settings of ``cls``; the variables that are not set are those of the `up` that runs here.

    An environment that names its database is left alone. SettingsError has all mistakes, and says what to start.
    """
    return find_settings(cls)[0]


def find_settings(cls: type[S]) -> tuple[S, bool]:
    """The settings as ``read_settings`` finds them, and whether the database is that of an `up`."""
    environ = dict(os.environ)
    home = home_at(Path(given) if (given := environ.get(DATA_DIR)) else None)
    found = None if environ.get(DATABASE_URL) else running_at(home)
    if found is not None:
        environ = _completed(environ, found)
    try:
        check_environment(environ, [cls])
    except SettingsError as exc:
        raise SettingsError([*exc.mistakes, *_hints(exc.mistakes, home, found)]) from None
    if found is not None:
        complain(f"{DATABASE_URL} is not set: this is about the `make up` in {home} ({_without_login(found)})")
    return load_settings(cls, environ), found is not None


def running_at(home: Path) -> Beside | None:
    """What the `up` that runs in ``home`` tells, or None. PermissionError when it is another user's."""
    try:
        told = json.loads(UpFile(home).path.read_text(encoding="utf-8"))
        keys_file = told["master_keys_file"]
        found = Beside(str(told["database_url"]), None if keys_file is None else Path(keys_file))
        # One that was killed leaves its file behind.
        return found if flock.is_taken(home / LOCK) else None
    except PermissionError:
        raise
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _completed(environ: Mapping[str, str], found: Beside) -> dict[str, str]:
    made = {DATABASE_URL: found.database_url}
    if not environ.get(MASTER_KEYS) and found.keys_file is not None:
        made[MASTER_KEYS] = master_key_in(found.keys_file)
    return {**environ, **made}


def _hints(mistakes: list[str], home: Path, found: Beside | None) -> list[str]:
    missing = [name for name in (DATABASE_URL, MASTER_KEYS) if f"{name} is required: {_meaning(name)}" in mistakes]
    if not missing:
        return []
    if found is not None:
        return [f"the `make up` in {home} was started with {MASTER_KEYS} of its own: set the same here"]
    if DATABASE_URL in missing:
        return [f"no `make up` is running in {home} either: start it, or set {' and '.join(missing)}"]
    return []


def _meaning(variable: str) -> str:
    return TABLE[variable.removeprefix(PREFIX)].meaning


def _without_login(found: Beside) -> str:
    parts = urlsplit(found.database_url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"
