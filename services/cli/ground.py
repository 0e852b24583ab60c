"""What every part of one process stands on: the pool, the bus, the tenants, the secrets and the heartbeats."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from services.cli.store import schema_mistake
from shared.broker.bus import Bus
from shared.errors import CannotStart, StoreRefuses, StoreUnavailable
from shared.lifecycle import Heart, Part, stopped_within
from shared.logs import get_logger
from shared.sealing import Sealer
from shared.serviceaccount import ServiceAccount
from shared.settings import BusSettings, StoreSettings, load_settings
from shared.store.database import Database
from shared.store.migrate import schema_state
from shared.tenantfile.current import Tenants

if TYPE_CHECKING:
    from litestar.types import ControllerRouterHandler

log = get_logger()

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0
CLOSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Sinks:
    """What takes the place of every tenant's own senders: the platform's relay, and one Firebase project for all."""

    service_account: ServiceAccount


@dataclass(frozen=True)
class Ground:
    """One process's ground. ``environ`` is where the parts' settings are read from, ``name`` what Postgres shows.

    With ``sinks`` no credential of a tenant is ever used.
    """

    name: str
    environ: Mapping[str, str]
    host: str
    database: Database
    bus: Bus
    tenants: Tenants
    sealer: Sealer
    sinks: Sinks | None = None
    hearts: dict[str, Heart] = field(default_factory=dict)
    extra_routes: list["ControllerRouterHandler"] = field(default_factory=list)
    """Mounted beside the API of ingest."""

    def parts(self) -> list[Part]:
        """The parts that serve all others."""
        return [Part("bus", self.bus.run), Part("tenants", self.tenants.run)]

    def worker_name(self) -> str:
        """The name of this process in ``outgoing.claimed_by``: no two are called the same at one time."""
        return f"{socket.gethostname()}:{os.getpid()}"

    async def check_schema(self) -> str | None:
        """What is wrong with Postgres or its schema, for /readyz; None when all is well."""
        return schema_mistake(await schema_state(self.database))


@asynccontextmanager
async def stand_on(
    environ: Mapping[str, str], *, name: str, host: str, sinks: Sinks | None = None
) -> AsyncIterator[Ground]:
    """A ground made from the settings in ``environ``, closed at the end of the block; nothing is connected yet."""
    settings, amqp_url = load_settings(StoreSettings, environ), load_settings(BusSettings, environ).amqp_url
    database = Database(settings.database_url, pool_size=settings.database_pool, name=name)
    bus = make_bus(amqp_url)
    try:
        yield Ground(name, environ, host, database, bus, Tenants(database), Sealer(settings.master_keys), sinks)
    finally:
        for closing in (bus.close(), database.close()):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(closing, CLOSE_SECONDS)


def make_bus(amqp_url: str | None) -> Bus:
    """RabbitMQ at ``amqp_url``, or the bus of a process that wakes itself."""
    if amqp_url is None:
        from shared.broker.local import LocalBus

        return LocalBus()
    from shared.broker.rabbit import RabbitBus

    return RabbitBus(amqp_url)


async def await_postgres(ground: Ground, stop: asyncio.Event) -> bool:
    """True once Postgres answers, has this release's schema, and the tenants are loaded; False after ``stop``.

    Waits for Postgres however long it takes. CannotStart when the schema is another, StoreRefuses when it does not let
    us in: no waiting mends that.
    """
    pause = FIRST_PAUSE_SECONDS
    while not stop.is_set():
        try:
            if (wrong := await ground.check_schema()) is not None:
                raise CannotStart(wrong)
            await ground.tenants.load()
        except StoreRefuses:
            raise
        except StoreUnavailable as exc:
            log.warning("postgres.unreachable", again_in_s=pause, error=str(exc))
            await stopped_within(stop, pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        else:
            return True
    return False
