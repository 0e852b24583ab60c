"""What `waybill up` keeps in its home: one at a time, secrets closed to others, nothing half written."""

import json
import os
import stat
from pathlib import Path

import pytest

from services.cli.exits import CommandFailed
from services.cli.home import make_home, only_one
from services.cli.kept import load_or_make
from services.cli.upfile import UpFile, write_secret


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_home_is_closed_to_others(tmp_path: Path) -> None:
    assert _mode(make_home(tmp_path / "home")) == 0o700


def test_a_second_one_in_the_same_home_is_told_where_the_first_answers(tmp_path: Path) -> None:
    with only_one(tmp_path):
        UpFile(tmp_path).write({"api_url": "http://127.0.0.1:8080"})
        with pytest.raises(CommandFailed, match=rf"already running: http://127\.0\.0\.1:8080 \(process {os.getpid()},"):
            with only_one(tmp_path):
                pass
    with only_one(tmp_path):
        pass


def test_a_second_one_is_told_when_the_first_is_still_starting(tmp_path: Path) -> None:
    with only_one(tmp_path), pytest.raises(CommandFailed, match=r"already running: process \d+ is starting"):
        with only_one(tmp_path):
            pass


def test_secrets_are_made_once_and_readable_by_their_owner_alone(tmp_path: Path) -> None:
    made = load_or_make(tmp_path)
    assert _mode(tmp_path / "secrets.json") == 0o600
    assert load_or_make(tmp_path) == made


def test_secrets_that_cannot_be_read_are_not_replaced_in_silence(tmp_path: Path) -> None:
    (tmp_path / "secrets.json").write_text('{"master_key": "short", "operator_token": "x"}')
    with pytest.raises(CommandFailed, match="make clean"):
        load_or_make(tmp_path)


def test_a_secret_file_replaces_a_readable_one_with_a_closed_one(tmp_path: Path) -> None:
    path = tmp_path / "up.json"
    path.write_text("{}")
    path.chmod(0o644)
    write_secret(path, '{"a": 1}')
    assert (_mode(path), json.loads(path.read_text())) == (0o600, {"a": 1})
    assert [entry.name for entry in tmp_path.iterdir()] == ["up.json"]
