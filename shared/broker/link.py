"""A connection to RabbitMQ that is made again for ever.

FastStream's own reconnection (aio-pika's robust connection) is left unused: every loss, whether of the
connection, a channel or a consumer, ends the broker object, and the next one declares everything anew. So a
killed, a frozen and a wiped node are all the same case.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from aio_pika import RobustConnection
from aio_pika.abc import TimeoutType
from aio_pika.exceptions import ChannelPreconditionFailed
from faststream.rabbit import Channel as AmqpChannel
from faststream.rabbit import RabbitBroker
from yarl import URL

from shared.lifecycle import any_set, failure_of, pause_after, stopped_within
from shared.logs import get_logger

log = get_logger()

CONNECT_SECONDS = 5.0
PREPARE_SECONDS = 10.0
DRAIN_SECONDS = 4.0
"""What work in hand gets before its message goes back to the queue."""
HANG_UP_SECONDS = 1.0
"""What each of two steps of an orderly goodbye gets: a frozen broker answers neither."""
HEARTBEAT_SECONDS = 10
LONGEST_PAUSE_SECONDS = 5.0
_NEVER_SECONDS = 10.0**6

Lost: TypeAlias = Callable[..., None]
Prepare: TypeAlias = Callable[[RabbitBroker, Lost], Awaitable[None]]


class Link:
    """One connection; ``broker`` is the usable broker, or None while there is none.

    ``prepare`` declares and starts what the link is for, and registers ``lost`` wherever a loss can be noticed;
    ``up`` is called when the link has become usable.
    """

    def __init__(
        self, url: str, name: str, prepare: Prepare, up: Callable[[], None], channel: AmqpChannel | None = None
    ) -> None:
        self.broker: RabbitBroker | None = None
        self._url = str(URL(url).extend_query(_missing(url, heartbeat=str(HEARTBEAT_SECONDS), name=f"waybill {name}")))
        self._name = name
        self._prepare = prepare
        self._up = up
        self._channel = channel
        self._ending = asyncio.Event()
        self._loss: BaseException | None = None
        self._in_hand = 0
        self._idle = asyncio.Event()
        self._down_since: float | None = None
        self._failures = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the link up until ``stop``, then let handlers finish and hang up."""
        self._down_since = time.monotonic()
        while not stop.is_set():
            failure = await failure_of(self._live(stop))
            if stop.is_set():
                return
            self._down_since = self._down_since or time.monotonic()
            self._failures += 1
            if self._failures == 1:
                log.warning("broker.down", link=self._name, **_reason(failure or self._loss))
            pause = min(pause_after(self._failures), LONGEST_PAUSE_SECONDS)
            await stopped_within(stop, pause * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, not a secret

    def distrust(self, broker: RabbitBroker, failure: BaseException) -> None:
        """Give up ``broker`` if it is still in use: something failed that the connection itself did not notice."""
        if broker is self.broker:
            self.broker = None
            self._loss = failure
            self._ending.set()

    @property
    def ending(self) -> bool:
        """Whether the link is being given up: what arrives now is left to whoever comes next."""
        return self._ending.is_set()

    @contextmanager
    def work(self) -> Iterator[None]:
        """Work on a message that the end of the link waits for."""
        self._in_hand += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._in_hand -= 1
            if not self._in_hand:
                self._idle.set()

    async def pause(self, seconds: float) -> None:
        """Wait ``seconds``, or until the link ends."""
        await stopped_within(self._ending, seconds)

    async def _live(self, stop: asyncio.Event) -> None:
        ending = self._ending = asyncio.Event()
        self._loss = None

        def lost(*reported: object) -> None:
            if self._ending is ending and not ending.is_set():
                self.broker = None
                self._loss = next((said for said in reported if isinstance(said, BaseException)), None)
                ending.set()

        broker = _Broker(
            self._url,
            timeout=CONNECT_SECONDS,
            reconnect_interval=_NEVER_SECONDS,
            on_close=[lost],
            default_channel=self._channel,
            graceful_timeout=None,
            logger=None,
            apply_types=False,
        )
        connection = await broker.connect()
        try:
            async with asyncio.timeout(PREPARE_SECONDS):
                await self._prepare(broker, lost)
            if not ending.is_set():
                self._say_up()
                self.broker = broker
                self._up()
                await any_set(stop, ending)
        finally:
            self.broker = None
            ending.set()
            if self._in_hand:
                await stopped_within(self._idle, DRAIN_SECONDS)
            await _end(broker.stop(), HANG_UP_SECONDS)
            await _end(connection.close(), HANG_UP_SECONDS)

    def _say_up(self) -> None:
        now = time.monotonic()
        log.info("broker.up", link=self._name, after_s=round(now - (self._down_since or now), 1))
        self._down_since = None
        self._failures = 0


class _Connection(RobustConnection):
    """A connection that is closed when it could not be made, instead of being tried again by nobody."""

    async def connect(self, timeout: TimeoutType = None) -> None:
        """Connect once, within ``timeout``."""
        try:
            await super().connect(timeout)
        except BaseException:
            await self.close()
            raise

    def __del__(self) -> None:
        """Nothing: aio-pika would close here what is closed already, in whatever loop happens to run."""


class _Broker(RabbitBroker):
    async def _connect(self) -> RobustConnection:
        self._connection_kwargs["connection_class"] = _Connection
        return await super()._connect()


async def _end(ending: Awaitable[None], seconds: float) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await ending

    # Whatever a broken connection says while it is closed, the next one decides.
    await failure_of(bounded())


def _missing(url: str, **defaults: str) -> dict[str, str]:
    return {name: value for name, value in defaults.items() if name not in URL(url).query}


def _reason(failure: BaseException | None) -> dict[str, str]:
    if failure is None:
        return {"reason": "connection lost"}
    reason = {"reason": f"{type(failure).__name__}: {failure}"}
    if isinstance(failure, ChannelPreconditionFailed):
        reason["mend"] = "delete the queue or exchange named here; its events are announced again"
    return reason
