"""The image holds all of the product, and starts it as nobody in particular."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from shared.settings import PREFIX, TABLE

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BUILD_SECONDS = 120


def _instructions() -> list[tuple[str, str]]:
    """Every instruction and what follows it, on one line each."""
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def _last(word: str) -> str:
    return [rest for name, rest in _instructions() if name == word][-1]


def _copied_from_the_clone() -> list[str]:
    copies = [rest.split() for word, rest in _instructions() if word == "COPY" and not rest.startswith("--from=")]
    return [source for names in copies for source in names[:-1]]


def test_everything_it_copies_exists_and_nothing_else_goes_to_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    let_in = [rule.removeprefix("!") for rule in rules if rule.startswith("!")]
    assert sorted(let_in) == sorted(_copied_from_the_clone())
    assert [name for name in let_in if not (ROOT / name).exists()] == []


def test_the_wheel_it_installs_has_every_file_of_the_product(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=BUILD_SECONDS)
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    files = (path for top in ("services", "shared") for path in (ROOT / top).rglob("*") if path.is_file())
    ours = {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}
    assert "shared/settings.toml" in ours
    assert sorted(ours - packed) == []


def test_the_ports_it_names_are_those_of_the_table() -> None:
    assert _last("EXPOSE").split() == [TABLE[name].default for name in ("PORT", "INBOX_PORT", "ADMIN_PORT")]


def test_every_setting_it_names_exists() -> None:
    named = set(re.findall(rf"\b{PREFIX}(\w+)", TEXT + (ROOT / "deploy" / "probe.py").read_text(encoding="utf-8")))
    assert {"ADMIN_PORT", "BIND"} <= named
    assert sorted(named - set(TABLE)) == []


def test_it_runs_one_of_the_projects_programs_under_a_number_that_is_not_root() -> None:
    (program,) = json.loads(_last("ENTRYPOINT"))
    assert program in PROJECT["scripts"]
    assert json.loads(_last("CMD")) == ["run", "all"]
    user, group = _last("USER").split(":")
    assert int(user) > 1000
    assert int(group) > 1000


def test_its_health_check_runs_what_was_copied_into_it() -> None:
    arguments = json.loads(_last("HEALTHCHECK").partition("CMD ")[2])
    assert any(word == "COPY" and rest.split()[-1] == arguments[-2] for word, rest in _instructions())
    assert arguments[-1] == "/livez"


def test_its_python_is_the_one_the_lock_was_made_for() -> None:
    (version,) = re.findall(r"^ARG PYTHON=python:(\d\.\d+)-slim$", TEXT, re.MULTILINE)
    assert PROJECT["requires-python"] == f">={version}"
