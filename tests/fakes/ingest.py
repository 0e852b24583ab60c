"""Ingest on a real socket, a real database and the bus of one process, with a small tenant to post for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx

from services.ingest.app import build
from services.ingest.settings import IngestSettings
from shared.broker.bus import Bus
from shared.broker.local import LocalBus
from shared.broker.messages import Announcement
from shared.channel import Channel
from shared.ids import EventId, ScopeId
from shared.keys import Permission
from shared.lifecycle import Part, run_parts
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.database import Database
from shared.store.keys import create_key
from shared.store.tenantfiles import insert_file
from shared.store.tenants import create_if_missing_and_lock, create_missing_scopes, scopes_of, set_file_version
from shared.tenant import ChannelTerms, EventType, InappRule, Mode, Tenant
from shared.tenantfile.current import Tenants
from shared.web.server import HttpPart
from tests.factories import WAIT_SECONDS

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["course"],
    "properties": {
        "course": {"type": "string", "maxLength": 120},
        "seats": {"type": "number", "maximum": 100},
        "tags": {"type": "array"},
    },
}


def tenant_model(schema: dict[str, Any] = SCHEMA) -> Tenant:
    """A tenant with one event type, ``booking_confirmed``, that takes payloads of ``schema``."""
    how = ChannelTerms(Terms(DEFAULT_POLICIES[Channel.INAPP]))
    booked = EventType(
        "booking_confirmed",
        "Booking confirmed",
        schema,
        {"course": "Algebra"},
        expires_after=timedelta(hours=6),
        inapp=InappRule(how, {"en": "Booked"}, {"en": "Soon"}),
    )
    return Tenant("campus", "Campus", ("en",), event_types={booked.id: booked})


def body(**changes: Any) -> dict[str, Any]:
    """A body that is accepted, with ``changes``."""
    return {
        "event_type": "booking_confirmed",
        "idempotency_key": "key-1",
        "recipient": {"id": "bob", "email": "bob@example.com", "locale": "en"},
        "payload": {"course": "Algebra"},
    } | changes


@dataclass
class Ingest:
    """A running ingest: clients with a live and a test key, and what the router would have been told."""

    database: Database
    tenants: Tenants
    base_url: str
    live: httpx.AsyncClient
    test: httpx.AsyncClient
    scopes: dict[Mode, ScopeId]
    announced: list[EventId] = field(default_factory=list)

    async def count(self, table: str) -> int:
        """How many rows ``table`` has."""
        async with self.database.hot() as pg:
            return int(await pg.fetchval(f"SELECT count(*) FROM {table}"))

    async def key(self, *permissions: Permission, mode: Mode = Mode.LIVE) -> str:
        """A new key with ``permissions``."""
        async with self.database.begin() as conn:
            return await create_key(conn, self.scopes[mode], mode, permissions)

    async def apply(self, model: Tenant) -> None:
        """Make ``model`` the tenant's file, and have ingest know it."""
        await apply_model(self.database, model)
        await self.tenants.refresh()


async def apply_model(database: Database, model: Tenant) -> dict[Mode, ScopeId]:
    """Keep ``model`` as the newest file of its tenant, created if need be; its scopes by mode."""
    async with database.begin() as conn:
        tenant = await create_if_missing_and_lock(conn, model.key, model.name)
        await create_missing_scopes(conn, tenant.tenant_id, lambda _: b"sealed")
        await insert_file(conn, tenant.tenant_id, tenant.file_version + 1, "", model)
        await set_file_version(conn, tenant.tenant_id, model.name, tenant.file_version + 1)
        return {mode: scope.scope_id for mode, scope in (await scopes_of(conn, model.key)).items()}


@asynccontextmanager
async def running_ingest(database: Database, bus: Bus | None = None, **settings: Any) -> AsyncIterator[Ingest]:
    """Ingest on ``database`` and ``bus`` (one of its own when None) until the block ends."""
    bus = bus or LocalBus()
    # A busy machine is no outage: tests of outages say how little patience they have.
    settings.setdefault("database_timeout", timedelta(seconds=15))
    scopes = await apply_model(database, tenant_model())
    tenants = Tenants(database)
    await tenants.load()
    parts = build(IngestSettings(port=0, **settings), database, bus, tenants, "127.0.0.1")
    assert isinstance(parts[0], HttpPart)
    base_url = f"http://127.0.0.1:{parts[0].port}"
    async with httpx.AsyncClient(base_url=base_url) as live, httpx.AsyncClient(base_url=base_url) as test:
        ingest = Ingest(database, tenants, base_url, live, test, scopes)
        live.headers["Authorization"] = f"Bearer {await ingest.key(*Permission)}"
        test.headers["Authorization"] = f"Bearer {await ingest.key(*Permission, mode=Mode.TEST)}"

        async def consume(announcement: Announcement) -> None:
            ingest.announced.extend(announcement.event_ids)

        bus.on_announced(consume)
        stop = asyncio.Event()
        running = asyncio.create_task(run_parts([*parts, Part("bus", bus.run)], stop))
        try:
            await _until_listening(parts[0].port)
            yield ingest
        finally:
            stop.set()
            await running
            await bus.close()


async def _until_listening(port: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                return
