"""The suite's own Postgres: one throw-away server, one migrated template, one fresh clone of it per test."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.store import scratch

_PREFIX = "test-postgres-"  # not "test-": RabbitMQ's folders begin with that, too


@contextmanager
def throw_away_server(home: Path, *, durable: bool = False) -> Iterator[str]:
    """The URL of a server that lives as long as the block; what killed runs left behind is removed first.

    ``durable``: it waits for the disk at every commit, as a real one does; tests have no need of that.
    """
    with scratch.throw_away_server(home, _PREFIX, durable=durable) as server:
        yield server.url


class Databases(scratch.ScratchDatabases):
    """Fresh databases on the suite's server."""
