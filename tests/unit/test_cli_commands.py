"""The command line itself: exit codes, plain errors, and nothing loaded that is not needed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.cli.exits import visible
from tests.fakes.product import WAYBILL, clean_environment

UNREACHABLE = "postgresql://waybill@127.0.0.1:1/waybill"


def waybill(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A finished run of the command; settings go without their prefix."""
    return subprocess.run(
        [WAYBILL, *arguments], env=clean_environment(settings), capture_output=True, text=True, timeout=60
    )


def test_help_loads_no_service_and_nothing_heavy() -> None:
    script = "import sys, services.cli.main; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    heavy = ("services.ingest", "services.email", "sqlalchemy", "asyncpg", "litestar", "faststream", "pydantic")
    assert [name for name in loaded if name.startswith(heavy)] == []
    assert waybill("--help").returncode == 0


@pytest.mark.parametrize(
    "arguments", [(), ("run",), ("run", "postman"), ("nonsense",), ("db", "drop"), ("key", "create"), ("apply",)]
)
def test_a_wrong_call_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    assert waybill(*arguments).returncode == 2


def test_every_wrong_setting_is_named_at_once() -> None:
    done = waybill("run", "email", DATABSE_URL="x", PORT="high", EMAIL_LEASE="10s", SMTP_URL="smtp://127.0.0.1:25")
    assert done.returncode == 2
    said = done.stderr
    for part in (
        "WAYBILL_DATABSE_URL is not a setting: did you mean WAYBILL_DATABASE_URL?",
        "WAYBILL_PORT must be a port",
        "WAYBILL_EMAIL_LEASE=10s is too short",
        "WAYBILL_DATABASE_URL is required",
        "WAYBILL_MASTER_KEYS is required",
        "WAYBILL_AMQP_URL is required",
    ):
        assert part in said
    assert "Traceback" not in said


def test_a_single_service_needs_a_broker_and_all_in_one_process_do_not() -> None:
    assert "WAYBILL_AMQP_URL is required" in waybill("run", "router").stderr
    together = waybill("run", "all")
    assert together.returncode == 2
    assert "WAYBILL_DATABASE_URL is required" in together.stderr
    assert "WAYBILL_AMQP_URL" not in together.stderr


@pytest.mark.parametrize("command", [("db", "migrate"), ("db", "check")])
def test_a_database_that_does_not_answer_is_exit_code_3_and_one_line(command: tuple[str, ...]) -> None:
    done = waybill(*command, DATABASE_URL=UNREACHABLE)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1


def test_a_key_for_an_unreachable_database_is_exit_code_3() -> None:
    keys = "A" * 43 + "="
    done = waybill("key", "create", "campus", DATABASE_URL=UNREACHABLE, MASTER_KEYS=keys)
    assert done.returncode == 3
    assert done.stderr.startswith("waybill: Postgres cannot be reached")


def test_a_misspelt_permission_is_a_usage_mistake() -> None:
    done = waybill("key", "create", "campus", "--permission", "event:write")
    assert done.returncode == 2
    assert "did you mean events:write?" in done.stderr


def test_an_impossible_duration_is_a_usage_mistake() -> None:
    done = waybill("key", "subscriber", "campus", "--recipient", "bob", "--lifetime", "soon")
    assert done.returncode == 2
    assert "--lifetime must be a duration" in done.stderr


def test_a_tenant_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    keys = "A" * 43 + "="
    done = waybill("apply", str(tmp_path / "no.yaml"), DATABASE_URL=UNREACHABLE, MASTER_KEYS=keys)
    assert done.returncode in (1, 3)
    assert "Traceback" not in done.stderr


def test_the_table_of_settings_is_printed_for_people_and_for_programs() -> None:
    assert "WAYBILL_DATABASE_URL" in waybill("settings").stdout
    table = json.loads(waybill("settings", "--json").stdout)
    assert {"variable": "WAYBILL_PORT", "default": "8080"}.items() <= next(
        row for row in table if row["name"] == "PORT"
    ).items()


@pytest.mark.parametrize("place", [3, 4])
def test_an_argument_that_is_not_utf8_is_a_usage_mistake(place: int) -> None:
    command = [b"pause", b"--tenant", b"campus", b"--reason=later"]
    command[place - 1] += b"\xff"
    done = subprocess.run([os.fsencode(WAYBILL), *command], env=clean_environment({}), capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, f"waybill: argument {place} is not UTF-8\n".encode())


@pytest.mark.parametrize("command", ["settings", "settings --json", "schema tenant"])
def test_a_reader_that_has_seen_enough_ends_the_command_in_silence(command: str) -> None:
    script = f'({WAYBILL} {command}; echo "ended with $?" >&2) | true'
    done = subprocess.run(["sh", "-c", script], env=clean_environment({}), capture_output=True, text=True, timeout=60)
    assert done.stderr == "ended with 0\n"


def test_a_full_disk_under_standard_output_is_said() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [WAYBILL, "settings"], env=clean_environment({}), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert (done.returncode, done.stderr) == (1, "waybill: standard output: No space left on device\n")


def test_a_terminal_that_is_not_utf8_gets_the_answer_all_the_same() -> None:
    environment = clean_environment({}) | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([WAYBILL, "schema", "tenant"], env=environment, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_strangers_words_have_no_power_over_a_terminal() -> None:
    assert visible("550 \x1b[2Jgone\nwaybill: all is well\x9b…") == "550 \\x1b[2Jgone\\nwaybill: all is well\\x9b…"


def test_a_reason_nobody_reads_to_its_end_is_a_usage_mistake() -> None:
    done = waybill("pause", "--tenant", "campus", "--reason", "x" * 1025)
    assert (done.returncode, done.stderr) == (2, "waybill: --reason is longer than 1024 characters\n")
