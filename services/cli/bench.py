"""`waybill bench`: what more worker processes bring on this machine, with a slow provider and with an instant one."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from services.cli.exits import CommandFailed, UsageMistake

MOST_WORKERS = 32
"""More would need more connections than a Postgres gives by default."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asked for. None leaves the choice to the experiment."""

    workers: Sequence[int]
    jobs: int | None
    slots: int | None
    provider: timedelta
    database_url: str | None
    svg: Path


def workers_in(text: str) -> list[int]:
    """The process counts in ``1,2,4``, in order and each once; UsageMistake when they are none."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 1 <= int(part) <= MOST_WORKERS for part in parts):
        raise UsageMistake(f"--workers must be numbers from 1 to {MOST_WORKERS} with commas between, say 1,2,4")
    return sorted({int(part) for part in parts})


def bench(wanted: Wanted, *, as_json: bool) -> None:
    """Measure both experiments, show them and write the plot; with ``as_json`` standard output is for programs."""
    from rich.console import Console

    from services.cli.benching.course import answer_all
    from services.cli.benching.figures import Answer
    from services.cli.benching.plan import database_pressure, slow_provider
    from services.cli.benching.site import server_at
    from services.cli.benching.svg import drawing_of
    from services.cli.benching.terminal import plot_of, table_of, warning_of
    from shared import logs
    from shared.lifecycle import run_loop

    if not wanted.svg.parent.is_dir() or wanted.svg.is_dir():
        raise UsageMistake(f"--svg must be a file in a folder that exists: {wanted.svg}")
    logs.configure(level="error")
    experiments = [
        slow_provider(wanted.provider, wanted.slots, wanted.jobs),
        database_pressure(wanted.slots, wanted.jobs),
    ]
    answers: list[Answer] = []
    with server_at(wanted.database_url) as server:
        run_loop(answer_all(server, experiments, wanted.workers, answers))
    console = Console(stderr=as_json, highlight=False)
    for answer in answers:
        console.print(table_of(answer), plot_of(answer), warning_of(answer), sep="\n")
        if as_json:
            print(json.dumps(answer.fields()))
    wanted.svg.write_text(drawing_of(answers), encoding="utf-8")
    console.print(f"The same as a picture: {wanted.svg}", soft_wrap=True)
    if again := sum(run.duplicates for answer in answers for run in answer.runs):
        raise CommandFailed(f"{again} jobs were given to the provider more than once")
