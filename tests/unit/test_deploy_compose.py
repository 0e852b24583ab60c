"""compose.yaml starts what there is, with the settings there are."""

import re
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from services.cli.compose import ALL, SERVICES, settings_classes
from services.cli.db import DatabaseSettings
from services.cli.ground import CLOSE_SECONDS
from services.cli.key import KeySettings
from shared.lifecycle import CANCEL_SECONDS, GRACE_SECONDS
from shared.sealing import new_master_key
from shared.settings import PREFIX, TABLE, Settings, check_environment, parse_duration

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "compose.yaml").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "how-to" / "run-with-compose.md").read_text(encoding="utf-8")
SECRETS = {
    "POSTGRES_PASSWORD": "p" * 48,
    "RABBITMQ_PASSWORD": "r" * 48,
    "WAYBILL_MASTER_KEYS": new_master_key(),
    "WAYBILL_SMTP_URL": "smtp://mailpit:1025",
}
LISTENING = {"WAYBILL_BIND", "WAYBILL_PORT", "WAYBILL_INBOX_PORT", "WAYBILL_ADMIN_PORT"}
"""What compose.yaml decides itself: where the processes listen inside their containers."""
RUNS = {"single": ALL} | {service: service for service in SERVICES}
each_process = pytest.mark.parametrize("name", RUNS)

_REFERENCE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def _filled_in(text: str, environ: dict[str, str]) -> str:
    """``text`` as compose reads it: references replaced by what ``environ`` has."""

    def replace(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        if value := environ.get(name, ""):
            return value
        assert kind != "?", f"{name} is required: {rest}"
        return rest or ""

    return _REFERENCE.sub(replace, text)


@cache
def _services(**more: str) -> dict[str, Any]:
    loaded = YAML(typ="safe").load(_filled_in(TEXT, SECRETS | more))
    assert isinstance(loaded["services"], dict)
    return loaded["services"]


def _environment(container: dict[str, Any], environ: dict[str, str]) -> dict[str, str]:
    """What the container's process sees: a name without a value is passed through, when it is set at all."""
    given = {name: environ.get(name) if value is None else value for name, value in container["environment"].items()}
    return {name: value for name, value in given.items() if value is not None}


def _read_by(name: str) -> set[str]:
    return {str(field.validation_alias) for cls in settings_classes(RUNS[name]) for field in cls.model_fields.values()}


def test_each_service_has_a_container_that_runs_it() -> None:
    commands = {name: container.get("command") for name, container in _services().items()}
    assert {name: commands[name] for name in RUNS} == {name: ["run", service] for name, service in RUNS.items()}
    assert commands["migrate"] == ["db", "migrate"]


def test_every_setting_it_names_exists() -> None:
    named = set(re.findall(rf"\b{PREFIX}(\w+)", TEXT))
    assert sorted(named - set(TABLE)) == []


@each_process
def test_a_process_accepts_the_settings_of_its_container(name: str) -> None:
    check_environment(_environment(_services()[name], {}), settings_classes(RUNS[name]))


@each_process
def test_every_setting_a_process_reads_can_be_set_in_the_env_file(name: str) -> None:
    reaching = set(_services()[name]["environment"])
    missing = _read_by(name) - reaching - LISTENING
    if name == "single":
        missing.discard("WAYBILL_AMQP_URL")  # the small form has no broker
    assert sorted(missing) == []
    assert sorted(reaching & LISTENING) == []


@pytest.mark.parametrize(("name", "classes"), [("migrate", [DatabaseSettings]), ("cli", [KeySettings])])
def test_the_short_commands_have_what_they_need(name: str, classes: list[type[Settings]]) -> None:
    check_environment(_environment(_services()[name], {}), classes)


def test_the_relay_is_known_to_those_who_send_mail_only() -> None:
    knowing = {
        name for name, container in _services().items() if "WAYBILL_SMTP_URL" in container.get("environment", {})
    }
    assert knowing == {name for name in RUNS if "WAYBILL_SMTP_URL" in _read_by(name)}


def test_a_setting_in_the_env_file_reaches_the_process() -> None:
    environ = {"WAYBILL_EMAIL_SLOTS": "3"}
    assert _environment(_services(**environ)["email"], environ)["WAYBILL_EMAIL_SLOTS"] == "3"


def test_ports_are_the_ones_of_the_table_and_can_be_moved() -> None:
    api, inbox = str(TABLE["PORT"].default), str(TABLE["INBOX_PORT"].default)
    expected = {"ingest": [api], "inapp": [inbox], "single": [api, inbox]}
    ports = {name: _services()[name].get("ports", []) for name in RUNS}
    assert ports == {name: [f"127.0.0.1:{port}:{port}" for port in expected.get(name, [])] for name in RUNS}
    moved = _services(WAYBILL_BIND="192.0.2.7", WAYBILL_PORT="80", WAYBILL_INBOX_PORT="81")
    assert moved["single"]["ports"] == [f"192.0.2.7:80:{api}", f"192.0.2.7:81:{inbox}"]


def test_consoles_are_published_to_this_machine_only_and_admin_pages_to_nobody() -> None:
    published = {name: container.get("ports", []) for name, container in _services(WAYBILL_BIND="192.0.2.7").items()}
    assert published["rabbitmq"] == ["127.0.0.1:15672:15672"]
    assert published["mailpit"] == ["127.0.0.1:8025:8025"]
    assert published["postgres"] == published["migrate"] == published["cli"] == []
    assert not [
        port for ports in published.values() for port in ports if port.endswith(f":{TABLE['ADMIN_PORT'].default}")
    ]


@each_process
def test_a_container_gets_longer_for_its_stop_than_the_process_takes(name: str) -> None:
    given = parse_duration(_services()[name]["stop_grace_period"])
    assert given > timedelta(seconds=GRACE_SECONDS + CANCEL_SECONDS + 2 * CLOSE_SECONDS)


@each_process
def test_a_process_starts_on_a_migrated_database_and_waits_for_no_broker(name: str) -> None:
    awaited = {other: how["condition"] for other, how in _services()[name]["depends_on"].items()}
    assert awaited.pop("rabbitmq", "service_started") == "service_started"
    assert awaited == {"postgres": "service_healthy", "migrate": "service_completed_successfully"}


def test_one_container_builds_the_image_and_the_others_wait_for_it() -> None:
    ours = {name: container for name, container in _services().items() if container["image"] == "waybill:local"}
    assert set(ours) == {*RUNS, "migrate", "cli"}
    assert [name for name, container in ours.items() if "build" in container] == ["migrate"]
    build = ours["migrate"]["build"]
    assert (ROOT / build["context"] / build["dockerfile"]).is_file()
    assert all("migrate" in container["depends_on"] for name, container in ours.items() if name != "migrate")


def test_what_is_not_part_of_the_full_form_waits_until_it_is_named() -> None:
    assert {name: one["profiles"] for name, one in _services().items() if "profiles" in one} == {
        "single": ["single"],
        "cli": ["cli"],
        "mailpit": ["mailpit"],
    }


def test_what_it_mounts_exists() -> None:
    mounts = [mount for container in _services().values() for mount in container.get("volumes", [])]
    paths = [mount.split(":")[0] for mount in mounts if mount.startswith(".")]
    assert len(paths) == 2
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_guide_makes_an_env_file_with_all_that_is_required_and_nothing_else() -> None:
    required = {found[1] for found in _REFERENCE.finditer(TEXT) if found[2] == "?"}
    assert required == set(SECRETS)
    assert re.findall(r"^([A-Z_]+)=", GUIDE, re.MULTILINE) == sorted(SECRETS)


@pytest.mark.parametrize("absent", SECRETS)
def test_without_a_secret_nothing_starts(absent: str) -> None:
    with pytest.raises(AssertionError, match=f"{absent} is required"):
        _filled_in(TEXT, {name: value for name, value in SECRETS.items() if name != absent})


def test_the_guide_names_containers_and_profiles_that_exist() -> None:
    services = _services()
    profiles = {profile for container in services.values() for profile in container.get("profiles", [])}
    containers = re.findall(r"docker compose exec (\w+)|--scale (\w+)=", GUIDE)
    assert {name for found in containers for name in found if name} <= set(services)
    assert set(re.findall(r"--profile (\w+)", GUIDE)) <= profiles
    assert len(containers) > 2
