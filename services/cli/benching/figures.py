"""The arithmetic of `waybill bench`: from moments and CPU seconds to the figures that are shown."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from services.cli.benching.plan import Experiment


@dataclass(frozen=True, slots=True)
class Run:
    """One run: ``jobs`` drained by ``workers`` processes.

    ``rate`` is jobs a second in the steady part, ``seconds`` the whole from start to the last job recorded.
    ``postgres_cpu`` None: its processes are not ours to see; ``machine_cpu`` (of everybody here) likewise.
    ``duplicates``: jobs given to the provider again.
    """

    workers: int
    jobs: int
    rate: float
    seconds: float
    worker_cpu: float
    postgres_cpu: float | None
    machine_cpu: float | None
    duplicates: int

    @property
    def worker_ms_per_job(self) -> float:
        """CPU milliseconds of all worker processes per job."""
        return 1000 * self.worker_cpu / self.jobs

    @property
    def postgres_ms_per_job(self) -> float | None:
        """CPU milliseconds of Postgres per job."""
        return None if self.postgres_cpu is None else 1000 * self.postgres_cpu / self.jobs

    @property
    def postgres_share(self) -> float | None:
        """Postgres's part of the CPU that workers and Postgres used together, 0 to 1."""
        if self.postgres_cpu is None or not self.postgres_cpu + self.worker_cpu:
            return None
        return self.postgres_cpu / (self.postgres_cpu + self.worker_cpu)

    @property
    def other_cores(self) -> float | None:
        """How many cores other work on this machine took meanwhile: a figure measured beside much of it is too low."""
        if self.machine_cpu is None or self.postgres_cpu is None:
            return None
        return max(self.machine_cpu - self.worker_cpu - self.postgres_cpu, 0) / self.seconds


@dataclass(frozen=True, slots=True)
class Answer:
    """All runs of one experiment, fewest processes first."""

    experiment: Experiment
    runs: Sequence[Run]

    def ideal(self, workers: float) -> float:
        """The rate of ``workers`` processes if each did as much as one of the run with the fewest."""
        return self.runs[0].rate * workers / self.runs[0].workers

    def efficiency(self, run: Run) -> float:
        """rate(n) / (n × rate(1)); 1 is as good as it gets."""
        return run.rate / self.ideal(run.workers)

    def fields(self) -> dict[str, object]:
        """The answer as it is printed for programs."""
        return {
            "experiment": self.experiment.name,
            "provider_ms": round(self.experiment.provider.total_seconds() * 1000),
            "slots": self.experiment.slots,
            "runs": [self._run_fields(run) for run in self.runs],
        }

    def _run_fields(self, run: Run) -> dict[str, object]:
        return {
            "workers": run.workers,
            "jobs": run.jobs,
            "seconds": round(run.seconds, 2),
            "jobs_per_second": round(run.rate, 1),
            "efficiency": round(self.efficiency(run), 3),
            "worker_cpu_ms_per_job": round(run.worker_ms_per_job, 4),
            "postgres_cpu_ms_per_job": _rounded(run.postgres_ms_per_job, 4),
            "postgres_share": _rounded(run.postgres_share, 3),
            "other_cores": _rounded(run.other_cores, 2),
            "duplicates": run.duplicates,
        }


def steady_rate(finished: Sequence[float], wave: int, seconds: float) -> float:
    """Jobs a second between ramp and tail, from the moments ``finished`` (in order) at which jobs were recorded.

    The first and the last two waves (a ``wave``: all slots once) are left out, a quarter of the jobs at most. What
    remains is counted in whole waves: slots that work in step finish together, and a part of a wave would count as
    much as a whole one. A run too short for all that is judged by its ``seconds``.
    """
    margin = min(2 * wave, len(finished) // 4)
    inner = len(finished) - 2 * margin - 1
    inner = inner // wave * wave or inner
    if inner > 0:
        took = finished[margin + inner] - finished[margin]
        if took > 0:
            return inner / took
    return len(finished) / seconds


def count_duplicates(given: Iterable[Iterable[int]]) -> int:
    """How many jobs stand more than once in ``given``: what each process gave to the provider."""
    counts = Counter(job for jobs in given for job in jobs)
    return sum(count > 1 for count in counts.values())


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
