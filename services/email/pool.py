"""The connections to a relay that are kept open between mails."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta

from services.email.connection import Connection, Refused

MOST_MAILS = 100
"""Mails on one connection; relays commonly close after a hundred or a few hundred."""
LONGEST_IDLE = timedelta(seconds=30)
"""Well below the five minutes after which relays give up on a silent client (RFC 5321 4.5.3.2.7)."""
PERMANENT = 500
"""The first code of a refusal for good."""


class Pool:
    """At most ``size`` connections at once; the one used last is used first, so that the others may go."""

    def __init__(self, size: int, most_mails: int = MOST_MAILS, longest_idle: timedelta = LONGEST_IDLE) -> None:
        self._slots = asyncio.Semaphore(size)
        self._most_mails = most_mails
        self._longest_idle = longest_idle.total_seconds()
        self._kept: list[tuple[Connection, float]] = []
        self._sweep: asyncio.TimerHandle | None = None
        self._retired = False

    @asynccontextmanager
    async def slot(self, by: float) -> AsyncIterator[None]:
        """The right to use one connection; TimeoutError when there is none ``by`` that time of the loop's clock."""
        async with asyncio.timeout_at(by):
            await self._slots.acquire()
        try:
            yield
        finally:
            self._slots.release()

    @contextmanager
    def giving_back(self, connection: Connection) -> Iterator[None]:
        """A block after which ``connection`` is kept, or closed when it broke in it."""
        try:
            yield
        except Refused as refused:
            if refused.code < PERMANENT and connection.mail_count > 1:
                # "Not now" may mean this connection, which has had its share of mails: the next one shall not ask it.
                connection.quit()
            else:
                self.give_back(connection)
            raise
        except BaseException:
            connection.abort()
            raise
        self.give_back(connection)

    def take(self) -> Connection | None:
        """The connection used last, or None when there is none that seems alive."""
        self._drop_stale()
        while self._kept:
            connection, _ = self._kept.pop()
            if connection.is_alive:
                return connection
            connection.abort()
        return None

    def give_back(self, connection: Connection) -> None:
        """Keep ``connection`` for the next mail, unless it is dead or has done enough."""
        if not connection.is_alive:
            connection.abort()
        elif self._retired or connection.mail_count >= self._most_mails:
            connection.quit()
        else:
            self._kept.append((connection, time.monotonic()))
            self._watch()

    def close(self) -> None:
        """Close every kept connection; the pool can be used again."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection, _ in self._kept:
            connection.quit()
        self._kept.clear()

    def retire(self) -> None:
        """Close every kept connection, and from now on keep none."""
        self._retired = True
        self.close()

    def _drop_stale(self) -> None:
        oldest = time.monotonic() - self._longest_idle
        while self._kept and self._kept[0][1] <= oldest:
            self._kept.pop(0)[0].quit()

    def _watch(self) -> None:
        """Have stale connections closed also while nothing is sent."""
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(self._longest_idle, self._swept)

    def _swept(self) -> None:
        self._sweep = None
        self._drop_stale()
        if self._kept:
            self._watch()
