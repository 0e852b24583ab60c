"""The embedded Postgres of `waybill up`: started without holding up a stop, watched while it runs."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
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
    """The URL of the Postgres whose data lies in ``home``, and the part that watches it; stopped at the end."""
    server = await _in_thread(lambda: EmbeddedPostgres(prepare(home)))
    try:
        yield await _in_thread(server.start), _watch(server)
    finally:
        await asyncio.shield(_in_thread(server.stop))


class PostgresEnded(CommandFailed):
    """The embedded Postgres has ended by itself: its address is gone with it, so `up` ends too."""


def _watch(server: EmbeddedPostgres) -> Part:
    async def run(stop: asyncio.Event) -> None:
        while not await stopped_within(stop, LOOK_SECONDS):
            if not server.alive():
                stop.set()

    return Part("postgres-watch", run)


async def _in_thread(work: Callable[[], T]) -> T:
    """What ``work`` returns, from a thread that nobody waits for when the process ends.

    A start that takes long (recovery after a crash) must not hold up a stop: the keeper ends Postgres
    when we are gone.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, failure: BaseException | None) -> None:
        if outcome.done():
            return
        if failure is not None:
            outcome.set_exception(failure)
        else:
            outcome.set_result(result)  # type: ignore[arg-type]  # it is T when nothing failed

    def body() -> None:
        try:
            result = work()
        except BaseException as exc:
            loop.call_soon_threadsafe(settle, None, exc)
        else:
            loop.call_soon_threadsafe(settle, result, None)

    threading.Thread(target=body, daemon=True).start()
    return await outcome
