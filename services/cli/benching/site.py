"""The ground of `waybill bench`: a Postgres that is thrown away afterwards, or databases of its own on a given one."""

import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from services.cli.benching.measure import Site
from shared.store.place import YARD_BASE
from shared.store.scratch import ScratchDatabases, Server, throw_away_server

PREFIX = "bench-postgres-"


@contextmanager
def server_at(url: str | None) -> Iterator[Server]:
    """The server at ``url``; without one a server that waits for the disk at every commit and is thrown away."""
    if url is not None:
        yield Server(url, None)
        return
    # Not the folder for temporary files: where that is memory, a commit would cost nothing.
    base = YARD_BASE if os.access(YARD_BASE, os.W_OK) else Path(tempfile.gettempdir())
    home = base / f"waybill-bench-{os.geteuid()}"
    with throw_away_server(home, PREFIX, durable=True) as server:
        yield server


@asynccontextmanager
async def site_on(server: Server) -> AsyncIterator[Site]:
    """A site on ``server``; nothing of it is left there afterwards."""
    databases = ScratchDatabases(server.url, f"waybill_bench_{secrets.token_hex(4)}_")
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder:
        try:
            await databases.make_template()
            yield Site(databases, Path(folder), server.pid)
        finally:
            await databases.drop_template()
