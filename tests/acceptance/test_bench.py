"""`waybill bench` as somebody runs it who wants to know what it does on their machine."""

import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import asyncpg
import pytest

from tests.fakes.product import WAYBILL, clean_environment, eventually

SMALL = ("--workers", "1,2", "--jobs", "400", "--provider-ms", "5")


def bench(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A finished run, begun in ``folder``. The URL in the settings is one that nothing answers at."""
    settings = {"DATABASE_URL": "postgresql://waybill@127.0.0.1:1/waybill"}
    return subprocess.run(
        [WAYBILL, "bench", *arguments],
        env=clean_environment(settings),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_both_experiments_are_measured_told_and_drawn(tmp_path: Path) -> None:
    done = bench(*SMALL, "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    slow, pressure = (json.loads(line) for line in done.stdout.splitlines())
    assert (slow["experiment"], slow["provider_ms"], slow["slots"]) == ("slow_provider", 5, 25)
    assert (pressure["experiment"], pressure["provider_ms"]) == ("database_pressure", 0)
    for answer in (slow, pressure):
        assert [run["workers"] for run in answer["runs"]] == [1, 2]
        assert [run["jobs"] for run in answer["runs"]] == [400, 400]
        assert [run["duplicates"] for run in answer["runs"]] == [0, 0]
        assert answer["runs"][0]["efficiency"] == 1
        assert all(run["jobs_per_second"] > 0 and run["worker_cpu_ms_per_job"] > 0 for run in answer["runs"])
        assert all(0 < run["postgres_share"] < 1 for run in answer["runs"])
    assert "A provider that takes 5 ms, 25 sends at once in each process" in done.stderr
    assert "waybill-bench.svg" in done.stderr
    ET.fromstring((tmp_path / "waybill-bench.svg").read_text())  # noqa: S314 - our own
    assert [path.name for path in tmp_path.iterdir()] == ["waybill-bench.svg"]


async def test_on_a_given_server_it_works_in_databases_of_its_own_and_leaves_none(
    database_url: str, tmp_path: Path
) -> None:
    pg = await asyncpg.connect(database_url)
    try:
        before = await pg.fetch("SELECT datname FROM pg_database WHERE datname LIKE 'waybill_bench%'")
        arguments = ("--workers", "1", "--jobs", "100", "--provider-ms", "1", "--svg", str(tmp_path / "plot.svg"))
        done = bench(*arguments, "--database-url", database_url, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "efficiency" in done.stdout
        assert "not known" in done.stdout  # the CPU of a server that is not its own
        assert await pg.fetchval("SELECT count(*) FROM outgoing") == 0
        after = await pg.fetch("SELECT datname FROM pg_database WHERE datname LIKE 'waybill_bench%'")
        assert after == before == []
    finally:
        await pg.close()
    assert (tmp_path / "plot.svg").is_file()


def test_a_server_that_does_not_answer_is_exit_code_3(tmp_path: Path) -> None:
    done = bench(*SMALL, "--database-url", "postgresql://waybill@127.0.0.1:1/waybill", folder=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr


async def test_a_bench_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    killed = bench_running("--workers", "2", "--jobs", "50000", "--svg", str(tmp_path / "plot.svg"), folder=tmp_path)
    try:

        async def sending() -> bool:
            return "delivery.attempted" in logged_in(tmp_path)

        await eventually(sending, seconds=120)
        left = children_of(killed.pid)
        assert len(left) >= 3  # two workers, and what keeps Postgres
    finally:
        killed.kill()
        killed.wait(30)

    async def gone() -> bool:
        return not any(pid in left for pid, _ in processes())

    await eventually(gone, seconds=60)


def bench_running(*arguments: str, folder: Path) -> subprocess.Popen[bytes]:
    """A bench that has begun; what its workers log goes to a folder in ``folder``."""
    environment = clean_environment({}) | {"TMPDIR": str(folder)}
    return subprocess.Popen([WAYBILL, "bench", *arguments], env=environment, stderr=subprocess.DEVNULL)


def logged_in(folder: Path) -> str:
    """What the workers of the first run have logged so far."""
    return "".join(log.read_text() for log in folder.glob("*/slow_provider-2.log"))


def processes() -> list[tuple[int, int]]:
    """Every process on this machine, and its parent; those that have ended and wait for their parent are left out."""
    shown = subprocess.run(["ps", "-axo", "pid=,ppid=,stat="], capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in shown.splitlines()]
    return [(int(pid), int(parent)) for pid, parent, state in lines if not state.startswith("Z")]


def children_of(pid: int) -> set[int]:
    """The processes that ``pid`` has started and that still run."""
    return {child for child, parent in processes() if parent == pid}


@pytest.mark.parametrize(
    "nonsense",
    [
        ("--workers", "0"),
        ("--workers", "a"),
        ("--workers", "1,,2"),
        ("--jobs", "-1"),
        ("--jobs", "0"),
        ("--slots", "0"),
        ("--provider-ms", "-5"),
        ("--svg", "no/such/folder/plot.svg"),
    ],
    ids=" ".join,
)
def test_nonsense_is_exit_code_2_names_the_option_and_measures_nothing(
    nonsense: tuple[str, str], tmp_path: Path
) -> None:
    done = bench(*nonsense, folder=tmp_path)
    assert done.returncode == 2
    assert nonsense[0] in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
