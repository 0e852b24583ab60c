"""The two experiments of `waybill bench`, with the sizes that the goals speak of."""

from collections.abc import Sequence
from datetime import timedelta

from services.cli.benching.figures import Answer, Run
from services.cli.benching.measure import Site, measure
from services.cli.benching.plan import Experiment, database_pressure, slow_provider
from tests.benchmarks.harness import Bench, Result

PROVIDER = timedelta(milliseconds=100)
FEW, MANY = 25, 100


async def slow_provider_scaling(bench: Bench) -> Result:
    """Four processes against one, each send taking 100 ms: efficiency_4 is rate(4) / (4 × rate(1))."""
    few = await _answer(bench, slow_provider(PROVIDER, FEW), (1, 4))
    many = await _answer(bench, slow_provider(PROVIDER, MANY), (1, 4))
    return {
        "bench": "slow_provider_scaling",
        "efficiency_4": round(few.efficiency(few.runs[-1]), 3),
        "efficiency_4_at_100": round(many.efficiency(many.runs[-1]), 3),
        "jobs_per_second": _rates(few),
        "jobs_per_second_at_100": _rates(many),
        "ideal_per_second": _ideal(few),
        "ideal_per_second_at_100": _ideal(many),
        "other_cores": _other_cores([*few.runs, *many.runs]),
        "duplicates": _duplicates(few) + _duplicates(many),
    }


async def database_pressure_scaling(bench: Bench) -> Result:
    """1, 2, 4 and 8 processes over a provider that answers at once: what Waybill and Postgres cost by themselves."""
    answer = await _answer(bench, database_pressure(), (1, 2, 4, 8))
    shares = {run.workers: run.postgres_share for run in answer.runs}
    return {
        "bench": "database_pressure",
        "jobs_per_second": _rates(answer),
        "efficiency": {run.workers: round(answer.efficiency(run), 3) for run in answer.runs},
        "worker_cpu_ms_per_job": {run.workers: round(run.worker_ms_per_job, 4) for run in answer.runs},
        "postgres_cpu_ms_per_job": {run.workers: round(run.postgres_ms_per_job or 0, 4) for run in answer.runs},
        "postgres_share": {workers: round(share or 0, 3) for workers, share in shares.items()},
        "other_cores": _other_cores(answer.runs),
        "duplicates": _duplicates(answer),
    }


async def _answer(bench: Bench, experiment: Experiment, workers: Sequence[int]) -> Answer:
    site = Site(bench.databases, bench.folder, bench.server.pid)
    runs = []
    for count in workers:
        bench.say(f"{experiment.name}: {count} × {experiment.slots}")
        runs.append(await measure(site, experiment, count, lambda _done: None))
    return Answer(experiment, runs)


def _rates(answer: Answer) -> dict[int, float]:
    return {run.workers: round(run.rate, 1) for run in answer.runs}


def _ideal(answer: Answer) -> dict[int, float]:
    """What the slots could do if the queue cost nothing at all."""
    experiment = answer.experiment
    return {
        run.workers: round(experiment.wave(run.workers) / experiment.provider.total_seconds()) for run in answer.runs
    }


def _other_cores(runs: Sequence[Run]) -> float | None:
    """The most that other work on the machine took during a run."""
    known = [run.other_cores for run in runs if run.other_cores is not None]
    return round(max(known), 2) if known else None


def _duplicates(answer: Answer) -> int:
    return sum(run.duplicates for run in answer.runs)
