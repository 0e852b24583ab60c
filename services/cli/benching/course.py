"""All runs of all experiments, one after the other, with a progress bar for whoever waits."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from services.cli.benching.figures import Answer, Run
from services.cli.benching.measure import Site, Tell, measure
from services.cli.benching.plan import Experiment
from services.cli.benching.site import site_on
from shared.store.scratch import Server


async def answer_all(
    server: Server, experiments: Sequence[Experiment], workers: Sequence[int], answers: list[Answer]
) -> None:
    """Measure every experiment with every number of ``workers`` and add its answer to ``answers``."""
    with _progress() as progress:
        preparing = progress.add_task("making a database", total=None)
        async with site_on(server) as site:
            progress.remove_task(preparing)
            for experiment in experiments:
                runs = [await _measure(site, experiment, count, progress) for count in workers]
                answers.append(Answer(experiment, runs))


async def _measure(site: Site, experiment: Experiment, workers: int, progress: Progress) -> Run:
    with _told(progress, f"{experiment.title}, {workers}×", experiment.jobs_of(workers)) as tell:
        return await measure(site, experiment, workers, tell)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


@contextmanager
def _told(progress: Progress, what: str, total: int) -> Iterator[Tell]:
    task = progress.add_task(what, total=total)
    try:
        yield lambda done: progress.update(task, completed=done)
    finally:
        progress.remove_task(task)
