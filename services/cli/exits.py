"""How a command ends: its exit code, and one plain line for every error that is expected."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from io import TextIOWrapper

from shared.errors import SettingsError, StoreRefuses, StoreUnavailable, TenantFileError, WaybillError


class Exit(IntEnum):
    """The exit codes of every command."""

    OK = 0
    """It did what it was asked."""
    FAILED = 1
    """It could not, and said why; asking again changes nothing by itself."""
    USAGE = 2
    """The command or a setting is wrong: nothing was done."""
    UNREACHABLE = 3
    """Postgres (or Waybill itself) did not answer: asking again later may work."""


class CommandFailed(WaybillError):
    """A command that could not do what it was asked; the text says why, and what mends it."""


class UsageMistake(WaybillError):
    """A command was called in a way that cannot be meant."""


@contextmanager
def expected_errors() -> Iterator[None]:
    """Turn the errors a person can mend into a line on standard error and an exit code."""
    try:
        yield
    except (WaybillError, OSError) as exc:
        raise SystemExit(_say(exc)) from exc
    except KeyboardInterrupt as exc:
        raise SystemExit(Exit.FAILED) from exc
    except Exception as exc:
        line = _database_complaint(exc)
        if line is None:
            raise
        complain(line)
        raise SystemExit(Exit.UNREACHABLE) from exc


def complain(*lines: str) -> None:
    """Say what went wrong, on standard error."""
    if sys.stderr is None:
        # Closed by whoever called: print would take standard output instead.
        return
    for line in lines:
        print(f"waybill: {visible(line)}", file=sys.stderr)


def show(fields: object, as_json: bool, *lines: str) -> None:
    """Print ``lines``, or ``fields`` as one JSON document when that was asked for.

    A reader that has seen enough (``| head -1``) ends the command in silence, with exit code 0.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal that is not UTF-8 must not cost the answer.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(json.dumps(fields, ensure_ascii=False, indent=2) if as_json else "\n".join(map(visible, lines)))
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError as exc:
        # What is still buffered would be complained about once more at the very end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(Exit.OK) from exc
    except OSError as exc:
        raise CommandFailed(f"standard output: {exc.strerror}") from exc


def require_utf8(name: str, text: str) -> None:
    """UsageMistake when ``text`` came from bytes that are no UTF-8: neither Postgres nor JSON takes it."""
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise UsageMistake(f"{name} is not UTF-8") from exc


def visible(line: str) -> str:
    """``line`` without power over a terminal: a server's words, or a stranger's, may have escapes in them."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)


def _say(exc: WaybillError | OSError) -> Exit:
    match exc:
        case SettingsError():
            complain(*exc.mistakes)
            return Exit.USAGE
        case UsageMistake():
            complain(str(exc))
            return Exit.USAGE
        case TenantFileError():
            for mistake in exc.mistakes:
                print(visible(mistake), file=sys.stderr)
            return Exit.FAILED
        case StoreRefuses():
            complain(_refused(exc))
            return Exit.UNREACHABLE
        case StoreUnavailable():
            complain(f"Postgres cannot be reached: {exc}")
            return Exit.UNREACHABLE
        case OSError() if exc.filename is not None:
            complain(f"{exc.filename}: {exc.strerror}")
            return Exit.FAILED
        case OSError():
            complain(f"the connection failed: {exc}")
            return Exit.UNREACHABLE
        case _:
            complain(*str(exc).splitlines())
            return Exit.FAILED


def _database_complaint(exc: Exception) -> str | None:
    """What Postgres refused before it came to our statement (password, no such database), or None."""
    # Only what is loaded already can have raised: no command pays for an import here.
    asyncpg, sqlalchemy = sys.modules.get("asyncpg"), sys.modules.get("sqlalchemy.exc")
    if sqlalchemy is not None and isinstance(exc, sqlalchemy.DBAPIError) and exc.orig is not None:
        exc = exc.orig.__cause__ if isinstance(exc.orig.__cause__, Exception) else exc
    refusals = ("InvalidAuthorizationSpecificationError", "InvalidPasswordError", "InvalidCatalogNameError")
    if asyncpg is not None and isinstance(exc, tuple(getattr(asyncpg, name) for name in refusals)):
        return _refused(exc)
    return None


def _refused(exc: Exception) -> str:
    return f"Postgres refuses the connection (WAYBILL_DATABASE_URL): {exc}"
