"""What is measured: an experiment, and how many jobs a run of it needs to say something."""

import math
from dataclasses import dataclass
from datetime import timedelta

STEADY = timedelta(seconds=6)
"""How long a run with a slow provider goes on when nobody says how many jobs it has."""
PRESSURE_JOBS = 60_000
SLOW_SLOTS = 25
PRESSURE_SLOTS = 500
"""Enough that a process always has something to do while Postgres answers."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One question: what do more worker processes bring, when each send takes ``provider`` in each of ``slots``.

    ``jobs`` None: as many as the processes have to do for a while.
    """

    name: str
    title: str
    provider: timedelta
    slots: int
    jobs: int | None

    def jobs_of(self, workers: int) -> int:
        """How many jobs a run with ``workers`` processes has."""
        if self.jobs is not None:
            return self.jobs
        if not self.provider:
            return PRESSURE_JOBS
        return workers * self.slots * math.ceil(STEADY / self.provider)

    def wave(self, workers: int) -> int:
        """How many jobs are being sent at once when every slot is taken."""
        return workers * self.slots


def slow_provider(provider: timedelta, slots: int | None = None, jobs: int | None = None) -> Experiment:
    """The provider takes its time: the queue should cost nothing, and twice the processes send twice as much."""
    milliseconds = round(provider.total_seconds() * 1000)
    return Experiment("slow_provider", f"A provider that takes {milliseconds} ms", provider, slots or SLOW_SLOTS, jobs)


def database_pressure(slots: int | None = None, jobs: int | None = None) -> Experiment:
    """The provider answers at once: what is left is Waybill itself and Postgres, and the cores they share."""
    title = "A provider that answers at once"
    return Experiment("database_pressure", title, timedelta(), slots or PRESSURE_SLOTS, jobs)
