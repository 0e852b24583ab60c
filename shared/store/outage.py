"""What an error of Postgres or its driver means for us, and one line in the log per outage instead of thousands."""

import time

import asyncpg
from sqlalchemy.exc import DBAPIError, DisconnectionError, InterfaceError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from shared.errors import StoreConflict, StoreRefuses, StoreUnavailable
from shared.logs import get_logger

log = get_logger()

# SQLSTATEs that speak of the server or the connection, never of the statement: whole classes, and a database that is
# not there (3D000), a transaction ended for its age (25P03, 25P04), a server that only reads after a failover.
READS_ONLY = "25006"
_AWAY = ("08", "53", "57", "58", "XX", "3D000", "25P03", "25P04", READS_ONLY)
_CONFLICT = ("40", "55P03")
_REFUSED = ("28",)
BROKEN = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError, PoolTimeout, DisconnectionError)
"""What is raised without a word of Postgres when a connection could not be had, was lost, or talked nonsense."""
CALM_SECONDS = 5.0
"""An outage is over once nothing has failed for so long: one that comes and goes is told as one."""


def outage_in(exc: BaseException) -> StoreUnavailable | None:
    """What ``exc`` says of Postgres itself; None when the statement was wrong, or it is no error of Postgres."""
    cause = _cause_of(exc)
    if (state := sqlstate_of(exc)) is not None:
        if state.startswith(_CONFLICT):
            return StoreConflict(_first_line(cause))
        if state.startswith(_REFUSED):
            return StoreRefuses(_first_line(cause))
        return StoreUnavailable(_first_line(cause)) if state.startswith(_AWAY) else None
    broken = isinstance(exc, DBAPIError) and (exc.connection_invalidated or isinstance(exc, InterfaceError))
    return StoreUnavailable(_first_line(cause)) if broken or isinstance(cause, BROKEN) else None


def sqlstate_of(exc: BaseException) -> str | None:
    """The SQLSTATE that Postgres gave, None when it gave none."""
    state = getattr(_cause_of(exc), "sqlstate", None)
    return None if state is None else str(state)


class Outage:
    """Tells of an outage when it begins and when it is over, and of nothing in between."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._last_failure = 0.0
        self._failure_count = 0

    def note_failure(self, failure: StoreUnavailable) -> None:
        """Postgres has failed somebody; a conflict is none of its failures."""
        if isinstance(failure, StoreConflict):
            return
        self._last_failure = time.monotonic()
        if self._began is None:
            self._began, self._failure_count = self._last_failure, 0
            log.warning("postgres.down", error=str(failure))
        self._failure_count += 1

    def note_success(self) -> None:
        """Postgres has done what it was asked."""
        if self._began is None or time.monotonic() - self._last_failure < CALM_SECONDS:
            return
        log.info("postgres.up", after_s=round(self._last_failure - self._began, 1), failures=self._failure_count)
        self._began = None


def _cause_of(exc: BaseException) -> BaseException:
    """The driver's own error, where SQLAlchemy has wrapped it."""
    if isinstance(exc, DBAPIError) and exc.orig is not None:
        return exc.orig.__cause__ or exc.orig
    return exc


def _first_line(exc: BaseException) -> str:
    return (str(exc) or type(exc).__name__).splitlines()[0]
