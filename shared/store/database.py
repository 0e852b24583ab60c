"""The connection pool, and the two ways to use it: an ordinary transaction, or a hot statement."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeAlias

import asyncpg
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, DisconnectionError, InterfaceError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from shared.errors import StoreUnavailable

HotConnection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
"""The driver's own connection; only the stubs know that it is generic."""

CONNECT_SECONDS = 5.0
IDLE_IN_TRANSACTION_SECONDS = 10

# SQLSTATEs that speak of the server or the connection, never of the statement: whole classes, a database that is
# not there (3D000), and a transaction that was ended for idling (25P03).
_UNAVAILABLE = ("08", "53", "57", "58", "XX", "3D000", "25P03")


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
        try:
            async with asyncio.timeout((within or self.within).total_seconds()):
                async with self._engine.connect() as connection:
                    try:
                        yield connection
                    except BaseException as exc:
                        if _leaves_connection_unusable(exc):
                            (await _driver_connection(connection)).terminate()
                        raise
        except (DBAPIError, PoolTimeout, DisconnectionError, asyncpg.PostgresError) as exc:
            if _speaks_of_server(exc):
                raise StoreUnavailable(_first_line(exc)) from exc
            raise
        except (OSError, TimeoutError, asyncpg.InterfaceError) as exc:
            raise StoreUnavailable(_first_line(exc)) from exc


def _make_engine(url: str, pool_size: int, within: timedelta, name: str) -> AsyncEngine:
    engine = create_async_engine(
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
            "command_timeout": within.total_seconds(),
            "server_settings": {
                "application_name": name,
                "jit": "off",
                "timezone": "UTC",
                "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_SECONDS}s",
            },
        },
    )
    event.listen(engine.sync_engine, "checkout", _refuse_closed)
    return engine


def driver_url(url: str) -> str:
    """``url`` (``postgresql://…``) with the driver SQLAlchemy is to use."""
    for prefix in ("postgresql://", "postgres://"):
        if url.startswith(prefix):
            return "postgresql+asyncpg://" + url.removeprefix(prefix)
    return url


def _refuse_closed(dbapi_connection: Any, _record: object, _proxy: object) -> None:
    # Looking at the socket's state costs nothing; a ping would cost a round trip at every use.
    if dbapi_connection.driver_connection.is_closed():
        raise DisconnectionError


async def _driver_connection(connection: AsyncConnection) -> "HotConnection":
    raw = await connection.get_raw_connection()
    driver: HotConnection | None = raw.driver_connection
    assert driver is not None  # noqa: S101 - the pool never hands out a record without one
    return driver


def _leaves_connection_unusable(exc: BaseException) -> bool:
    # A rollback over a connection that swallows packets would wait for its whole timeout again.
    return isinstance(exc, asyncio.CancelledError | OSError | asyncpg.InterfaceError | InterfaceError)


def _speaks_of_server(exc: BaseException) -> bool:
    if isinstance(exc, PoolTimeout | DisconnectionError):
        return True
    if isinstance(exc, DBAPIError):
        if exc.connection_invalidated or isinstance(exc, InterfaceError):
            return True
        exc = exc.orig.__cause__ or exc.orig if exc.orig is not None else exc
    state = getattr(exc, "sqlstate", None)
    if state is None:
        return isinstance(exc, OSError | asyncpg.InterfaceError | asyncpg.PostgresConnectionError)
    return str(state).startswith(_UNAVAILABLE)


def _first_line(exc: BaseException) -> str:
    return (str(exc) or type(exc).__name__).splitlines()[0]
