"""The table is complete, and settings classes take from it."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from shared.errors import SettingsError
from shared.settings import (
    TABLE,
    BusSettings,
    ProcessSettings,
    Setting,
    Settings,
    StoreSettings,
    check_lease,
    format_duration,
    listed,
    load_settings,
    parse_duration,
)
from shared.settings.words import LONGEST_DURATION, PARSERS, UNITS

DATABASE_URL = "postgresql://waybill:hunter2@localhost/waybill"
KEY = "A" * 43 + "="


@pytest.mark.parametrize("setting", TABLE.values(), ids=lambda setting: setting.name)
def test_every_setting_says_what_it_does_and_who_reads_it(setting: Setting) -> None:
    assert re.fullmatch(r"[A-Z][A-Z0-9_]*", setting.name)
    assert setting.meaning.endswith((".", "without."))
    assert setting.read_by
    assert setting.type in {*PARSERS, "url", "choice"}


NUMERIC = [setting for setting in TABLE.values() if setting.type in ("count", "duration")]


@pytest.mark.parametrize("setting", NUMERIC, ids=lambda setting: setting.name)
def test_every_count_and_duration_is_taken_up_to_its_bounds_and_no_further(setting: Setting) -> None:
    assert setting.least is not None
    assert setting.most is not None
    for bound in (setting.least, setting.most):
        setting.parse(bound)
    beyond = ["0", "999999999"] if setting.type == "count" else ["1ms", "999999d"]
    for text in beyond:
        with pytest.raises(ValueError, match=r"^(from \d|a whole number|a duration)"):
            setting.parse(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("500ms", 0.5), ("5m", 300), ("2h", 7200), ("1d", 86400), ("4", 4), ("1.5s", 1.5), ("3 s", 3)],
)
def test_a_duration_is_a_number_and_a_unit_or_plain_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", "s", "0", "0s", "-1s", "1w", "1,5s", "٣s", "1e3", "inf", "nan", "99999d", "999999999999d", "1s2"],
)
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="such as 90s, 500ms or 5m"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["90s", "500ms", "5m", "2h", "1d", "1500ms"])
def test_a_duration_is_written_as_it_is_read(text: str) -> None:
    assert format_duration(parse_duration(text)) == text


def test_the_longest_duration_is_one_that_a_database_takes() -> None:
    assert parse_duration(f"{LONGEST_DURATION // UNITS['d']}d") == LONGEST_DURATION


def test_a_field_takes_default_and_meaning_from_the_table() -> None:
    class Sample(Settings):
        lease: timedelta = listed("EMAIL_LEASE")

    assert Sample().lease == timedelta(seconds=90)
    assert Sample.model_fields["lease"].description == TABLE["EMAIL_LEASE"].meaning


def test_values_come_from_the_environment_given_and_from_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAYBILL_ADMIN_PORT", "1")
    settings = load_settings(ProcessSettings, {"WAYBILL_LOG_FORMAT": "json", "WAYBILL_BIND": ""})
    assert settings == ProcessSettings(log_format="json", bind=None, admin_port=9090)
    assert load_settings(ProcessSettings).admin_port == 1


def test_a_setting_without_default_is_required_unless_its_class_says_otherwise() -> None:
    with pytest.raises(SettingsError, match="WAYBILL_DATABASE_URL is required: The Postgres"):
        load_settings(StoreSettings, {"WAYBILL_MASTER_KEYS": KEY})
    assert load_settings(BusSettings, {}).amqp_url is None


def test_all_mistakes_of_a_class_are_named_at_once_without_their_values() -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings(
            StoreSettings,
            {
                "WAYBILL_DATABASE_URL": "mysql://root:hunter2@localhost",
                "WAYBILL_DATABASE_POOL": "none",
                "WAYBILL_MASTER_KEYS": "hunter2",
            },
        )
    assert sorted(line.split(" must be ")[0] for line in raised.value.mistakes) == [
        "WAYBILL_DATABASE_POOL",
        "WAYBILL_DATABASE_URL",
        "WAYBILL_MASTER_KEYS",
    ]
    assert "hunter2" not in str(raised.value)


def test_settings_do_not_show_their_secrets() -> None:
    settings = load_settings(StoreSettings, {"WAYBILL_DATABASE_URL": DATABASE_URL, "WAYBILL_MASTER_KEYS": KEY})
    assert settings.database_url == DATABASE_URL
    assert "hunter2" not in repr(settings)
    assert "master_keys" not in repr(settings)


def test_a_lease_too_short_for_two_attempts_is_refused_with_the_numbers() -> None:
    attempt, margin = timedelta(seconds=35), timedelta(seconds=5)
    check_lease("EMAIL", timedelta(seconds=75), attempt, margin)
    with pytest.raises(ValueError) as raised:
        check_lease("EMAIL", timedelta(seconds=74), attempt, margin)
    assert str(raised.value) == (
        "WAYBILL_EMAIL_LEASE=74s is too short: it must be at least"
        " 2 x WAYBILL_EMAIL_ATTEMPT_TIMEOUT (35s) + WAYBILL_LEASE_MARGIN (5s) = 75s"
    )


def test_the_table_names_every_variable_the_code_mentions() -> None:
    root = Path(__file__).parents[2]
    mentioned = set()
    for path in (*root.glob("services/**/*.py"), *root.glob("shared/**/*.py"), *root.glob("deploy/**/*.py")):
        mentioned |= set(re.findall(r"\bWAYBILL_([A-Z][A-Z_]*[A-Z])\b", path.read_text(encoding="utf-8")))
        mentioned |= set(re.findall(r"\blisted\(\"(\w+)\"", path.read_text(encoding="utf-8")))
    assert mentioned - set(TABLE) - {"X", "NAME"} == set()
