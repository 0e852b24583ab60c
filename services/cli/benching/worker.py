"""One worker process of a run: the product's own claim loop, over a provider that only takes its time.

``python -m services.cli.benching.worker FILE`` reads its order from standard input, says ``ready``, begins at the next
line, ends when standard input does, and writes what it did to FILE as JSON. Log lines go to standard error, as in life.
"""

import asyncio
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import msgspec

from services.cli.benching.backlog import CHANNEL
from shared import logs
from shared.delivery.pace import WorkerSettings
from shared.delivery.provider import Parcel
from shared.delivery.worker import Worker
from shared.ids import ScopeId, TenantId
from shared.lifecycle import run_loop
from shared.store.database import Database
from shared.store.migrate import schema_state
from shared.tenant import EmailSender, Mode, ScopedTenant, Senders, Tenant
from shared.verdict import Delivered, Verdict

READY = b"ready\n"
STOP_SECONDS = 10.0
POOL = 4
"""The loop uses a connection to claim and one to settle."""


class Order(msgspec.Struct, frozen=True):
    """What a worker process is told: which database, how many sends at once, and how long each takes."""

    database_url: str
    slots: int
    provider_seconds: float


class Report(msgspec.Struct, frozen=True):
    """What a worker process did: CPU seconds since it began, and every job it gave to the provider, in order."""

    cpu_seconds: float
    given: list[int]


class PatientProvider:
    """Takes every message after ``seconds``, and remembers which job it was."""

    name = "bench"

    def __init__(self, seconds: float) -> None:
        self.given: list[int] = []
        self._seconds = seconds

    async def send(self, parcel: Parcel) -> Verdict:
        """Taken, in its own time."""
        self.given.append(parcel.job_id)
        if self._seconds:
            await asyncio.sleep(self._seconds)
        return Delivered("bench")

    def circuits(self, _tenant: ScopedTenant) -> frozenset[str]:
        """None: nothing on the way can be blocked."""
        return frozenset()

    async def learn(self, _tenant: ScopedTenant) -> None:
        """Nothing to look up."""

    async def close(self) -> None:
        """Nothing to give back."""


class AnyTenant:
    """Every scope is a tenant that can send mail."""

    def __init__(self) -> None:
        sender = EmailSender("bench@waybill.example", "Bench")
        self._tenant = ScopedTenant(
            ScopeId(1), TenantId(1), Mode.LIVE, 1, Tenant("bench", "Bench", ("en",), senders=Senders(email=sender))
        )

    def of_scope(self, _scope_id: ScopeId) -> ScopedTenant:
        """The tenant."""
        return self._tenant


def make_worker(order: Order, database: Database, provider: PatientProvider) -> Worker:
    """The product's worker, set as the email service sets it."""
    settings = WorkerSettings(
        channel=CHANNEL,
        name=f"bench:{os.getpid()}",
        slots=order.slots,
        lease=timedelta(seconds=90),
        attempt_timeout=timedelta(seconds=35),
        margin=timedelta(seconds=5),
        poll_busy=timedelta(seconds=1),
        poll_idle=timedelta(seconds=5),
    )
    return Worker(settings, database, AnyTenant(), provider)


async def _work(order: Order, reported: Path) -> None:
    database = Database(order.database_url, pool_size=POOL, name="waybill bench")
    provider, stop = PatientProvider(order.provider_seconds), asyncio.Event()
    try:
        await schema_state(database)  # connected before the start
        sys.stdout.buffer.write(READY)
        sys.stdout.buffer.flush()
        await _next_line()
        began = time.process_time()
        working = asyncio.create_task(make_worker(order, database, provider).run(stop))
        await asyncio.wait({working, asyncio.create_task(_next_line())}, return_when=asyncio.FIRST_COMPLETED)
        spent = time.process_time() - began
        stop.set()
        # Whoever measured may be gone, and Postgres with it: a worker by itself would wait for that to come back.
        await asyncio.wait_for(working, STOP_SECONDS)
    finally:
        await database.close()
    reported.write_bytes(msgspec.json.encode(Report(spent, provider.given)))  # noqa: ASYNC240 - nothing else runs any more


async def _next_line() -> None:
    await asyncio.to_thread(sys.stdin.buffer.readline)


def main() -> None:
    """Work as told."""
    logs.configure(json=True)
    run_loop(_work(msgspec.json.decode(sys.stdin.buffer.readline(), type=Order), Path(sys.argv[1])))


if __name__ == "__main__":
    main()
