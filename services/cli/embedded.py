"""The embedded Postgres of `waybill up`: started without holding up a stop, watched while it runs."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from services.cli.exits import CommandFailed
from shared.lifecycle import Part, stopped_within
from shared.store.embedded import EmbeddedPostgres
from shared.store.place import prepare

T = TypeVar("T")
LOOK_SECONDS = 1.0


@asynccontextmanager
async def embedded_postgres(home: Path) -> AsyncIterator[tuple[str, Part]]:
    """The URL of the Postgres whose data lies in ``home``, and the part that watches it; stopped at the end.

    CommandFailed at the end when it had ended by itself: its address went with it, so `up` ends too.
    """
    server = await _in_thread(lambda: EmbeddedPostgres(prepare(home)))
    # Cut off here by a stop, the thread goes on; its keeper ends Postgres when this process is gone.
    url = await _in_thread(server.start)
    try:
        yield url, Part("postgres-watch", lambda stop: _watch(server, stop))
        if not server.alive():
            raise CommandFailed(f"Postgres has ended by itself, its log is {server.log}: start again")
    finally:
        await _in_thread(server.stop)


async def _watch(server: EmbeddedPostgres, stop: asyncio.Event) -> None:
    while not await stopped_within(stop, LOOK_SECONDS):
        if not server.alive():
            stop.set()


async def _in_thread(work: Callable[[], T]) -> T:
    """What ``work`` returns, from a thread that nobody waits for when the process ends.

    A start that takes long (recovery after a crash) must not hold up a stop.
    """
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()

    def body() -> None:
        try:
            outcome.set_result(work())
        except BaseException as exc:  # noqa: BLE001 - handed on to whoever waits for it
            outcome.set_exception(exc)

    threading.Thread(target=body, daemon=True).start()
    return await asyncio.wrap_future(outcome)
