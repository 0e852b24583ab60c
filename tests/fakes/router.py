"""The router on a real database and a real bus, with a tenant that can be made to fail."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from services.router.app import build
from shared.broker.bus import Bus
from shared.channel import Channel
from shared.ids import EventId, ScopeId
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.database import Database
from shared.store.events import NewEvent
from shared.tenant import ChannelTerms, EmailRule, EventType, InappRule, Mode, Tenant
from shared.tenantfile.current import Tenants
from tests.factories import accept_events, new_event
from tests.fakes.buses import Received, listening, running_buses
from tests.fakes.ingest import apply_model
from tests.fakes.product import eventually

SENT_TWO_WAYS = (Channel.EMAIL, Channel.INAPP)
RECIPIENT = '{"id":"bob","email":"bob@example.com"}'
UNREADABLE = '{"name":"nobody"}'
"""A recipient as no ingest of ours ever wrote one: routing its event raises."""


def event_type(name: str, title: str = "Hello", body: str = "Text") -> EventType:
    """A type that goes out by email and in-app, with these templates as its in-app content."""
    inapp = InappRule(ChannelTerms(Terms(DEFAULT_POLICIES[Channel.INAPP])), {"en": title}, {"en": body})
    email = EmailRule(ChannelTerms(Terms(DEFAULT_POLICIES[Channel.EMAIL])), {"en": "Hello"}, text={"en": "Text"})
    return EventType(name, name, {"type": "object"}, {}, inapp=inapp, email=email)


@dataclass
class Routing:
    """A running router: the bus it listens to, the scopes of its tenant, the wakes it sent."""

    database: Database
    bus: Bus
    tenants: Tenants
    scopes: dict[Mode, ScopeId]
    woken: dict[Channel, Received]

    async def accept(self, *events: NewEvent) -> list[EventId]:
        """``events`` in the table, not announced."""
        return await accept_events(self.database, events)

    def event(self, name: str = "good", **changes: Any) -> NewEvent:
        """An event of type ``name`` for bob, in the live scope."""
        fields: dict[str, Any] = {"scope_id": self.scopes[Mode.LIVE], "event_type": name, "recipient": RECIPIENT}
        return new_event(**(fields | changes))

    async def states(self, event_ids: Sequence[EventId]) -> list[tuple[str, str]]:
        """Status and reason of each event."""
        rows = await self._fetch("SELECT event_id, status, reason FROM events WHERE event_id = ANY ($1)", event_ids)
        found = {row[0]: (row[1], row[2]) for row in rows}
        return [found[event_id] for event_id in event_ids]

    async def jobs(self, event_id: EventId) -> list[tuple[str, str, str]]:
        """Channel, status and reason of each job."""
        return await self._fetch(
            "SELECT channel, status, reason FROM outgoing WHERE event_id = $1 ORDER BY channel", event_id
        )

    async def tries(self, event_id: EventId) -> int:
        """How often the event was routed alone in vain."""
        return int((await self._fetch("SELECT route_tries FROM events WHERE event_id = $1", event_id))[0][0])

    async def until_over(self, event_ids: Sequence[EventId]) -> list[tuple[str, str]]:
        """The states of the events, once none is QUEUED."""

        async def over() -> list[tuple[str, str]] | None:
            states = await self.states(event_ids)
            return None if any(status == "QUEUED" for status, _ in states) else states

        return await eventually(over)

    async def _fetch(self, statement: str, *values: object) -> list[Any]:
        async with self.database.hot() as pg:
            return [tuple(row) for row in await pg.fetch(statement, *values)]


@asynccontextmanager
async def running_router(database: Database, *types: EventType, amqp_url: str | None = None) -> AsyncIterator[Routing]:
    """A router for a tenant with ``types`` and a type ``good``, on RabbitMQ or on the bus of one process."""
    tenant = Tenant("campus", "Campus", ("en",), event_types={one.id: one for one in (event_type("good"), *types)})
    scopes = await apply_model(database, tenant)
    tenants = Tenants(database)
    await tenants.load()
    woken = {channel: Received() for channel in SENT_TWO_WAYS}

    def register(bus: Bus) -> None:
        build(database, bus, tenants)
        for channel, received in woken.items():
            listening(received, channel)(bus)

    async with running_buses(amqp_url) as buses:
        (bus,) = await buses.open(register)
        yield Routing(database, bus, tenants, scopes, woken)
