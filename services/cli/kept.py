"""What `waybill up` makes once and keeps in its home: the master key, the operator's token, the demo's API keys."""

import secrets
from pathlib import Path

import msgspec

from services.cli.exits import CommandFailed
from services.cli.upfile import write_secret
from shared.sealing import new_master_key, parse_master_keys

NAME = "secrets.json"
OPERATOR_PREFIX = "wb_operator_"


class TenantKeys(msgspec.Struct, frozen=True):
    """The API keys `up` made for one tenant: one per half."""

    live: str
    test: str


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of ``secrets.json``."""

    master_key: str
    operator_token: str
    keys: dict[str, TenantKeys] = {}


def load_or_make(home: Path) -> Kept:
    """What is kept in ``home``; made and written the first time."""
    try:
        return _read(home / NAME)
    except FileNotFoundError:
        kept = Kept(master_key=new_master_key(), operator_token=OPERATOR_PREFIX + secrets.token_urlsafe(24))
        save(home, kept)
        return kept


def master_key_in(path: Path) -> str:
    """The master key that is kept at ``path``. Raises OSError, and CommandFailed when it cannot be read."""
    return _read(path).master_key


def save(home: Path, kept: Kept) -> None:
    """Write ``kept``, readable by its owner alone."""
    write_secret(home / NAME, msgspec.json.format(msgspec.json.encode(kept)).decode() + "\n")


def _read(path: Path) -> Kept:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=Kept)
        parse_master_keys(kept.master_key)
    except (msgspec.DecodeError, ValueError) as exc:
        raise CommandFailed(f"{path} cannot be read ({exc}): put it back, or run `make clean` to start anew") from exc
    return kept
