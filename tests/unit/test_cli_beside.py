"""Whose settings a short command goes by: the environment's before those of an `up`, and a word where there is none."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.cli.beside import DATA_DIR, DATABASE_URL, MASTER_KEYS, find_settings, read_settings
from services.cli.home import only_one
from services.cli.kept import NAME, load_or_make
from services.cli.key import KeySettings
from services.cli.upfile import UpFile
from shared.errors import SettingsError
from shared.sealing import new_master_key, parse_master_keys

URL = "postgresql://waybill:s3cret@127.0.0.1:5433/waybill"
OTHER = "postgresql://waybill@127.0.0.1:1/other"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home that the environment names, and nothing else of ours in it."""
    for variable in (DATABASE_URL, MASTER_KEYS):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(DATA_DIR, str(tmp_path))
    return tmp_path


def tell(home: Path, **changes: Any) -> None:
    """What an `up` writes that is ready in ``home``."""
    load_or_make(home)
    UpFile(home).write({"database_url": URL, "master_keys_file": str(home / NAME), **changes})


def test_beside_an_up_nothing_has_to_be_set_and_its_database_is_named(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(home)
    with only_one(home):
        settings, beside_up = find_settings(KeySettings)
    assert beside_up
    assert settings == KeySettings(
        database_url=URL, master_keys=parse_master_keys(json.loads((home / NAME).read_text())["master_key"])
    )
    said = capsys.readouterr()
    assert said.out == ""
    assert f"`make up` in {home} (127.0.0.1:5433/waybill)" in said.err
    assert "s3cret" not in said.err


def test_an_environment_that_names_its_database_is_left_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(home)
    monkeypatch.setenv(DATABASE_URL, OTHER)
    with only_one(home):
        # Its keys are not lent to another database either.
        with pytest.raises(SettingsError, match=f"{MASTER_KEYS} is required") as missing:
            find_settings(KeySettings)
        keys = new_master_key()
        monkeypatch.setenv(MASTER_KEYS, keys)
        assert read_settings(KeySettings) == KeySettings(database_url=OTHER, master_keys=parse_master_keys(keys))
    assert len(missing.value.mistakes) == 1
    assert capsys.readouterr().err == ""


def test_without_one_the_error_names_the_variables_and_what_to_start(home: Path) -> None:
    with pytest.raises(SettingsError) as missing:
        find_settings(KeySettings)
    *required, hint = missing.value.mistakes
    assert [line.partition(" ")[0] for line in required] == [DATABASE_URL, MASTER_KEYS]
    assert hint == f"no `make up` is running in {home} either: start it, or set {DATABASE_URL} and {MASTER_KEYS}"


def test_what_a_killed_one_left_behind_is_not_believed(home: Path) -> None:
    tell(home)
    with pytest.raises(SettingsError, match="no `make up` is running"):
        find_settings(KeySettings)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"database_url": "x"}', "\ud800"])
def test_a_file_that_says_nothing_of_use_is_as_good_as_none(home: Path, content: str) -> None:
    UpFile(home).path.write_text(content, errors="surrogatepass")
    with only_one(home), pytest.raises(SettingsError, match="no `make up` is running"):
        find_settings(KeySettings)


def test_one_with_master_keys_of_its_own_environment_asks_for_the_same(home: Path) -> None:
    tell(home, master_keys_file=None)
    with only_one(home), pytest.raises(SettingsError) as missing:
        find_settings(KeySettings)
    assert missing.value.mistakes[1] == (
        f"the `make up` in {home} was started with {MASTER_KEYS} of its own: set the same here"
    )
