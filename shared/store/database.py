"""The connection pool, and the two ways to use it: an ordinary transaction, or a hot statement."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeAlias

import asyncpg
from sqlalchemy import event
from sqlalchemy.exc import DisconnectionError, InterfaceError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from shared.errors import StoreUnavailable
from shared.store.outage import BROKEN, READS_ONLY, Outage, outage_in, sqlstate_of

HotConnection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
"""The driver's own connection; only the stubs know that it is generic."""

CONNECT_SECONDS = 5.0
IDLE_IN_TRANSACTION_SECONDS = 10

CHECK_CLIENT_SECONDS = 1
PING_SECONDS = 0.5
_FRESH, _SEEN_AT = "fresh", "seen_at"


class Database:
    """One pool of connections to one Postgres.

    ``within`` bounds everything between taking a connection and giving it back; a caller may give its own.
    A connection that was cut off in mid-statement is closed, never reused.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 10,
        within: timedelta = timedelta(seconds=10),
        name: str = "waybill",
    ) -> None:
        self.within = within
        self._engine = _make_engine(url, pool_size, within, name)
        self._outage = Outage()
        self._silent_at = 0.0
        event.listen(self._engine.sync_engine, "connect", _note_fresh)
        event.listen(self._engine.sync_engine, "checkout", self._refuse_unusable)

    @asynccontextmanager
    async def begin(self, within: timedelta | None = None) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction: committed at the end, rolled back on any error.

        Raises StoreUnavailable when Postgres cannot be reached or does not answer in time.
        """
        async with self._connection(within) as connection, connection.begin():
            yield connection

    @asynccontextmanager
    async def hot(self, within: timedelta | None = None) -> "AsyncIterator[HotConnection]":
        """The driver's own connection in autocommit, for statements that must not pay for more.

        Raises StoreUnavailable when Postgres cannot be reached or does not answer in time.
        """
        async with self._connection(within) as connection:
            yield await _driver_connection(connection)

    async def close(self) -> None:
        """Close every connection."""
        await self._engine.dispose()

    @asynccontextmanager
    async def _connection(self, within: timedelta | None) -> AsyncIterator[AsyncConnection]:
        seconds = (within or self.within).total_seconds()
        try:
            async with asyncio.timeout(seconds) as patience, self._engine.connect() as connection:
                driver = await _driver_connection(connection)
                # Not even a rollback waits any longer: it would go over the same connection, for as long again.
                ending = asyncio.get_running_loop().call_at(patience.when() or 0.0, self._give_up, driver)
                try:
                    yield connection
                except BaseException as exc:
                    if _leaves_connection_unusable(exc):
                        driver.terminate()
                    raise
                finally:
                    ending.cancel()
        except Exception as exc:
            failure = outage_in(exc)
            if failure is None:
                raise
            if patience.expired():
                failure = StoreUnavailable(f"Postgres did not answer within {seconds:g} s")
            self._outage.note_failure(failure)
            raise failure from exc
        self._outage.note_success()

    def _give_up(self, driver: "HotConnection") -> None:
        # What made this one fall silent may have done so to all that were made before: they are asked before use.
        self._silent_at = time.monotonic()
        driver.terminate()

    def _refuse_unusable(self, dbapi_connection: Any, record: Any, _proxy: object) -> None:
        # Looking at the socket's state costs nothing; a ping at every use would cost a round trip.
        driver, is_fresh = dbapi_connection.driver_connection, record.info.pop(_FRESH, False)
        if driver.is_closed():
            # The pool connects anew after a DisconnectionError, but not twice.
            raise asyncpg.InterfaceError("closed as soon as it was made") if is_fresh else DisconnectionError
        seen_at = record.info.get(_SEEN_AT, 0.0)
        if seen_at < self._silent_at and not is_fresh and not dbapi_connection.run_async(_answers):
            raise DisconnectionError
        record.info[_SEEN_AT] = time.monotonic()


def _note_fresh(_dbapi_connection: object, record: Any) -> None:
    record.info[_FRESH] = True


async def _answers(driver: "HotConnection") -> bool:
    try:
        async with asyncio.timeout(PING_SECONDS):
            await driver.fetchval("SELECT 1")
    except (TimeoutError, asyncpg.PostgresError, *BROKEN):
        driver.terminate()
        return False
    return True


def _make_engine(url: str, pool_size: int, within: timedelta, name: str) -> AsyncEngine:
    return create_async_engine(
        driver_url(url),
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=within.total_seconds(),
        pool_use_lifo=True,
        # A payload must not reach the logs by way of an error message.
        hide_parameters=True,
        # JSON stays text in both directions: who reads it knows the type to decode it to.
        json_deserializer=str,
        connect_args={
            "timeout": CONNECT_SECONDS,
            "server_settings": {
                "application_name": name,
                "jit": "off",
                "timezone": "UTC",
                "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_SECONDS}s",
                # A statement whose client has hung up would wait for its lock for ever, and hold a place meanwhile.
                "client_connection_check_interval": f"{CHECK_CLIENT_SECONDS}s",
            },
        },
    )


def driver_url(url: str) -> str:
    """``url`` (``postgresql://…``) with the driver SQLAlchemy is to use."""
    for prefix in ("postgresql://", "postgres://"):
        if url.startswith(prefix):
            return "postgresql+asyncpg://" + url.removeprefix(prefix)
    return url


async def _driver_connection(connection: AsyncConnection) -> "HotConnection":
    raw = await connection.get_raw_connection()
    driver: HotConnection | None = raw.driver_connection
    assert driver is not None  # noqa: S101 - the pool never hands out a record without one
    return driver


def _leaves_connection_unusable(exc: BaseException) -> bool:
    # A rollback over a connection that swallows packets would wait for its whole timeout again; one to a server that
    # only reads would never write.
    return isinstance(exc, (asyncio.CancelledError, InterfaceError, *BROKEN)) or sqlstate_of(exc) == READS_ONLY
