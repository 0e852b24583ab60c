"""The documents name only files, commands and settings that exist."""

import re
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from services.cli.main import app
from shared.settings import PREFIX, TABLE

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
]
each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


@each_document
def test_every_link_leads_to_a_file(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (document.parent / target).exists()] == []


@each_document
def test_every_setting_it_names_exists(document: Path) -> None:
    named = set(re.findall(rf"{PREFIX}([A-Z_]+[A-Z])", document.read_text(encoding="utf-8")))
    assert sorted(named - set(TABLE)) == []


@each_document
def test_every_command_it_names_exists(document: Path) -> None:
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    named = set(re.findall(r"(?:`|\$ )waybill ([a-z]+)", document.read_text(encoding="utf-8")))
    assert sorted(named - set(command.commands)) == []


@each_document
def test_every_make_target_it_names_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z ]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    known = {target for line in targets for target in line.split()}
    named = set(re.findall(r"(?:`|\$ )make ([a-z]+)", document.read_text(encoding="utf-8")))
    assert sorted(named - known) == []


def test_the_walk_names_its_eight_files_in_order() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    walk = re.findall(r"^\d\. \[([a-z/_]+)\.py\]", text, re.MULTILINE)
    assert walk == [
        "services/ingest/events",
        "services/ingest/accept",
        "shared/store/events",
        "services/router/route",
        "shared/store/outgoing",
        "shared/delivery/worker",
        "shared/delivery/attempt",
        "services/email/smtp",
    ]
