"""What `waybill bench` makes of moments, CPU seconds and what was asked for."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from services.cli.bench import workers_in
from services.cli.benching.cpu import machine_cpu_seconds, seconds_of, tree_cpu_seconds
from services.cli.benching.figures import Answer, Run, count_duplicates, steady_rate
from services.cli.benching.plan import database_pressure, slow_provider
from services.cli.benching.svg import drawing_of, step_for
from services.cli.benching.terminal import bar, warning_of
from services.cli.exits import UsageMistake

SLOW = slow_provider(timedelta(milliseconds=100))


def run(workers: int, rate: float, *, postgres_cpu: float | None = 3.0, machine_cpu: float | None = 4.4) -> Run:
    """A run of 1,000 jobs in 4 s, which took the workers 1 s of CPU."""
    return Run(workers, 1_000, rate, 4.0, 1.0, postgres_cpu, machine_cpu, 0)


def waves(count: int, wave: int, every: float) -> list[float]:
    """The moments of slots that work in step: ``wave`` jobs at once, each ``every`` seconds."""
    return [number * every for number in range(count) for _ in range(wave)]


@pytest.mark.parametrize("wave", [1, 25, 100])
def test_slots_that_work_in_step_are_counted_in_whole_waves(wave: int) -> None:
    assert steady_rate(waves(40, wave, 0.1), wave, 5.0) == pytest.approx(wave * 10)


def test_a_slow_start_and_a_slow_end_are_left_out_of_the_rate() -> None:
    steady = [3.0 + number / 100 for number in range(1_000)]
    finished = [0.0] * 25 + [2.0] * 25 + steady + [20.0] * 25 + [30.0] * 25
    assert steady_rate(finished, 25, 30.0) == pytest.approx(100)


@pytest.mark.parametrize(
    ("finished", "rate"), [([7.0], 0.5), ([7.0, 8.0], 1.0), ([7.0] * 100, 50.0)], ids=["one", "two", "all at once"]
)
def test_a_run_without_a_steady_part_is_judged_by_its_whole_time(finished: Sequence[float], rate: float) -> None:
    assert steady_rate(finished, 25, 2.0) == pytest.approx(rate)


def test_a_run_of_few_waves_still_has_a_steady_part() -> None:
    assert steady_rate([number / 10 for number in range(40)], 25, 100.0) == pytest.approx(10)


def test_efficiency_is_held_against_as_many_times_the_rate_of_one() -> None:
    answer = Answer(SLOW, [run(1, 250), run(4, 960), run(8, 1_000)])
    assert [answer.efficiency(one) for one in answer.runs] == pytest.approx([1.0, 0.96, 0.5])


def test_without_a_run_of_one_the_fewest_processes_are_the_measure() -> None:
    answer = Answer(SLOW, [run(2, 500), run(4, 900)])
    assert [answer.efficiency(one) for one in answer.runs] == pytest.approx([1.0, 0.9])


def test_cpu_is_told_per_job_with_the_share_of_postgres() -> None:
    measured = run(1, 250)
    assert (measured.worker_ms_per_job, measured.postgres_ms_per_job) == (1.0, 3.0)
    assert measured.postgres_share == 0.75


def test_much_other_work_on_the_machine_is_said() -> None:
    quiet, busy = run(1, 250), run(1, 250, machine_cpu=10.0)
    assert (quiet.other_cores, busy.other_cores) == pytest.approx((0.1, 1.5))
    assert warning_of(Answer(SLOW, [quiet])) == ""
    assert "up to 1.5 cores" in warning_of(Answer(SLOW, [quiet, busy]))
    assert warning_of(Answer(SLOW, [run(1, 250, machine_cpu=None)])) == ""


def test_the_cpu_of_the_machine_is_more_than_ours(tmp_path: Path) -> None:
    assert machine_cpu_seconds(tmp_path) is None
    told = machine_cpu_seconds()
    assert told is None or told >= time.process_time()


def test_the_cpu_of_a_postgres_elsewhere_is_not_made_up() -> None:
    answer = Answer(SLOW, [run(1, 250, postgres_cpu=None)])
    told = json.loads(json.dumps(answer.fields()))["runs"][0]
    assert told["postgres_share"] is None
    assert told["postgres_cpu_ms_per_job"] is None
    assert told["worker_cpu_ms_per_job"] == 1.0


def test_a_job_counts_as_a_duplicate_within_a_process_and_across_two() -> None:
    assert count_duplicates([[1, 2, 3], [4, 5]]) == 0
    assert count_duplicates([[1, 2, 2, 2], [1, 3]]) == 2


def test_a_slow_provider_gets_jobs_for_the_same_time_whatever_works_on_them() -> None:
    assert [SLOW.jobs_of(workers) for workers in (1, 4)] == [1_500, 6_000]
    assert slow_provider(timedelta(milliseconds=100), slots=100).jobs_of(4) == 24_000
    assert database_pressure().jobs_of(1) == database_pressure().jobs_of(8)
    assert database_pressure(jobs=7).jobs_of(8) == 7


@pytest.mark.parametrize(("text", "counts"), [("1", [1]), ("8, 1,2,2", [1, 2, 8]), ("32", [32])])
def test_process_counts_are_read_in_order_and_each_once(text: str, counts: list[int]) -> None:
    assert workers_in(text) == counts


@pytest.mark.parametrize("text", ["", "0", "a", "1,", "-1", "1.5", "33", "²", "1 2"])
def test_process_counts_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageMistake, match="--workers must be numbers"):
        workers_in(text)


def test_the_cpu_of_a_process_and_its_children_is_seen() -> None:
    burn = "import time\nwhile time.process_time() < 0.6: pass\nprint(flush=True)\ninput()"
    script = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])"
    parent = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        spent = tree_cpu_seconds(parent.pid)
        parent.kill()
    assert spent is not None
    assert spent >= 0.4  # the kernel counts in ticks, and the interpreters by themselves take far less


def test_the_cpu_of_a_process_that_is_not_there_is_not_known() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(30)
    assert tree_cpu_seconds(gone.pid) is None


def test_where_there_is_no_proc_ps_is_asked(tmp_path: Path) -> None:
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    spent = tree_cpu_seconds(os.getpid(), tmp_path)
    assert spent is not None
    assert spent >= 0


@pytest.mark.parametrize(
    ("shown", "seconds"),
    [("0:01.50", 1.5), ("00:00:02", 2.0), ("12:34.00", 754.0), ("1-02:03:04", 93_784.0)],
)
def test_the_clock_of_ps_is_read_on_every_system(shown: str, seconds: float) -> None:
    assert seconds_of(shown) == seconds


@pytest.mark.parametrize(
    ("length", "mark", "drawn"),
    [(1.0, 0.5, "███┊████"), (0.5, 1.0, "████   ┊"), (0.5, 3.0, "████    "), (0.0, 0.0, "        ")],
)
def test_a_bar_ends_where_the_figure_does_and_marks_the_ideal(length: float, mark: float, drawn: str) -> None:
    assert bar(length, mark, width=8) == drawn


@pytest.mark.parametrize(
    ("highest", "step"), [(4, 1), (250, 50), (251, 100), (1_480, 400), (2_001, 500), (50_000, 10_000)]
)
def test_grid_lines_stand_at_round_numbers_and_reach_the_highest(highest: float, step: float) -> None:
    assert step_for(highest) == step
    assert 5 * step >= highest


def test_the_drawing_has_a_labelled_point_for_each_run_and_an_ideal_line_for_each_answer() -> None:
    answers = [Answer(SLOW, [run(1, 250), run(4, 960)]), Answer(database_pressure(), [run(1, 9_000)])]
    svg = "{http://www.w3.org/2000/svg}"
    root = ET.fromstring(drawing_of(answers))  # noqa: S314 - our own
    assert len(list(root.iter(f"{svg}circle"))) == 3
    assert len([line for line in root.iter(f"{svg}polyline") if line.get("stroke-dasharray") != "none"]) == 2
    texts = {text.text for text in root.iter(f"{svg}text")}
    assert {"250/s", "960/s", "0.96", "9,000/s", "A provider that takes 100 ms"} <= texts
