"""A worker that runs as long as a test's block, with a provider of the test's own."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from shared.channel import Channel
from shared.delivery.pace import WorkerSettings
from shared.delivery.provider import Provider
from shared.delivery.worker import Worker
from shared.store.database import Database
from shared.tenant import Mode
from tests.fakes.tenants import OneTenant

END_SECONDS = 20.0


def worker_settings(**changes: object) -> WorkerSettings:
    """Generous leases and short polls; ``changes`` are fields of WorkerSettings."""
    values: dict[str, object] = {
        "channel": Channel.EMAIL,
        "name": "worker",
        "slots": 10,
        "lease": timedelta(seconds=30),
        "attempt_timeout": timedelta(seconds=5),
        "margin": timedelta(seconds=1),
        "poll_busy": timedelta(milliseconds=100),
        "poll_idle": timedelta(milliseconds=200),
    }
    return WorkerSettings(**(values | changes))  # type: ignore[arg-type]


@asynccontextmanager
async def working(
    database: Database, provider: Provider, mode: Mode = Mode.LIVE, **changes: object
) -> AsyncIterator[tuple[Worker, Callable[[], None]]]:
    """The running worker, and what stops it; it has ended when the block has."""
    worker = Worker(worker_settings(**changes), database, OneTenant(mode), provider)
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    try:
        yield worker, stop.set
    finally:
        stop.set()
        async with asyncio.timeout(END_SECONDS):
            await running
