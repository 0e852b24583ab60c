"""Takes announcements off the bus: a whole message in one transaction, a message that failed before event by event."""

import asyncio
from collections.abc import Sequence

from services.router.route import route, scopes_to_wake
from shared.broker.bus import Bus
from shared.broker.messages import Announcement
from shared.channel import Channel
from shared.ids import EventId, format_event_id
from shared.logs import get_logger
from shared.store.database import Database
from shared.store.outgoing import MadeJob
from shared.store.routing import count_try, fail_if_queued
from shared.tenantfile.current import Tenants

log = get_logger()

TRIES = 5
"""An event that could not be routed this often is FAILED ``routing_failed``."""


class Consumer:
    """Routes what is announced. Returning acknowledges the message; raising brings it back, marked as redelivered."""

    def __init__(self, database: Database, bus: Bus, tenants: Tenants) -> None:
        self._database = database
        self._bus = bus
        self._tenants = tenants

    async def consume(self, announcement: Announcement) -> None:
        """Route the events of ``announcement`` and wake the channels their jobs are on."""
        if announcement.redelivered:
            await self._route_each(announcement.event_ids)
            return
        await self._wake(await self._route(announcement.event_ids))

    async def _route(self, event_ids: Sequence[EventId]) -> list[MadeJob]:
        async with self._database.hot() as pg, pg.transaction():
            return await route(pg, self._tenants, event_ids)

    async def _route_each(self, event_ids: Sequence[EventId]) -> None:
        """One event may be what made the message fail: the others must not suffer for it."""
        failures: list[BaseException] = []
        for event_id in event_ids:
            (outcome,) = await asyncio.gather(self._route_alone(event_id), return_exceptions=True)
            if isinstance(outcome, BaseException):
                log.error("router.event_failed", event_id=format_event_id(event_id), exc_info=outcome)
                failures.append(outcome)
        if failures:
            raise failures[0]

    async def _route_alone(self, event_id: EventId) -> None:
        async with self._database.hot() as pg:
            tries = await count_try(pg, event_id)
        if tries is None:
            return
        if tries > TRIES:
            async with self._database.hot() as pg:
                await fail_if_queued(pg, [event_id], "routing_failed")
            log.error("router.gave_up", event_id=format_event_id(event_id), tries=tries - 1)
            return
        await self._wake(await self._route([event_id]))

    async def _wake(self, made: Sequence[MadeJob]) -> None:
        for channel, scope_ids in scopes_to_wake(made).items():
            await self._bus.wake(Channel(channel), scope_ids)
