"""Takes announcements off the bus: a whole message in one transaction, a suspect message event by event."""

from collections.abc import Sequence

from services.router.route import Routed, route, scopes_to_wake, tenant_for
from shared.broker.bus import Bus
from shared.broker.messages import Announcement
from shared.channel import Channel
from shared.errors import StoreUnavailable
from shared.event import EventReason, EventStatus
from shared.ids import EventId, format_event_id
from shared.lifecycle import failure_of
from shared.logs import get_logger
from shared.metrics import events_routed
from shared.store.database import Database
from shared.store.routing import End, Suspect, count_try_if_seen, find_suspects, finish_if_queued
from shared.tenantfile.current import Tenants

log = get_logger()

TRIES = 5
"""An event that was routed alone this often in vain is FAILED ``routing_failed``."""
MOST_EXCUSED = 10_000


class Consumer:
    """Routes what is announced. Returning acknowledges the message; raising brings it back, marked as redelivered."""

    def __init__(self, database: Database, bus: Bus, tenants: Tenants) -> None:
        self._database = database
        self._bus = bus
        self._tenants = tenants
        self._excused: set[EventId] = set()

    async def consume(self, announcement: Announcement) -> None:
        """Route the events of ``announcement`` and wake the channels their jobs are on."""
        if announcement.is_suspect:
            await self._route_each(announcement.event_ids)
            return
        async with self._database.hot() as pg, pg.transaction():
            routed = await route(pg, self._tenants, announcement.event_ids)
        await self._tell(routed)

    async def _route_each(self, event_ids: Sequence[EventId]) -> None:
        """One event may be what made the message fail: the others must not suffer for it."""
        async with self._database.hot() as pg:
            suspects = await find_suspects(pg, event_ids)
        failures: list[BaseException] = []
        for suspect in suspects:
            failure = await failure_of(self._route_alone(suspect))
            if isinstance(failure, StoreUnavailable):
                # Its try is counted, and Postgres was at fault. Each of the others would wait in vain for as long.
                self._excuse(suspect.event_id)
                raise failure
            self._excused.discard(suspect.event_id)
            if failure is None:
                continue
            log.error(
                "router.event_failed",
                event_id=format_event_id(suspect.event_id),
                earlier_tries=suspect.tries,
                exc_info=failure,
            )
            failures.append(failure)
        if failures:
            raise failures[0]

    def _excuse(self, event_id: EventId) -> None:
        if len(self._excused) >= MOST_EXCUSED:
            self._excused.clear()
        self._excused.add(event_id)

    async def _route_alone(self, suspect: Suspect) -> None:
        is_excused = suspect.event_id in self._excused
        if suspect.tries >= TRIES and not is_excused:
            await self._give_up(suspect)
            return
        # Before the try is counted: a file that this process does not have is not the event's fault.
        await tenant_for(self._tenants, suspect)
        async with self._database.hot() as pg:
            if not is_excused and not await count_try_if_seen(pg, suspect):
                return
            async with pg.transaction():
                routed = await route(pg, self._tenants, [suspect.event_id])
        await self._tell(routed)

    async def _give_up(self, suspect: Suspect) -> None:
        async with self._database.hot() as pg:
            detail = f"routed alone {suspect.tries} times in vain; the router's log says why under this event's id"
            end = End(suspect.event_id, EventStatus.FAILED, EventReason.ROUTING_FAILED, detail)
            ended = await finish_if_queued(pg, [end])
        log.error("router.gave_up", event_id=format_event_id(suspect.event_id), tries=suspect.tries)
        await self._tell(Routed([], ended))

    async def _tell(self, routed: Routed) -> None:
        for status, count in routed.ended.items():
            events_routed.labels(status).inc(count)
        for channel, scope_ids in scopes_to_wake(routed.made).items():
            await self._bus.wake(Channel(channel), scope_ids)
