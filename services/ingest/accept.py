"""The moment an event becomes Waybill's problem: one transaction, and only then an announcement."""

from dataclasses import dataclass
from datetime import timedelta

from services.ingest.announcer import Announcer
from services.ingest.groupcommit import GroupCommit
from services.ingest.intake import Unfit
from shared.errors import StoreUnavailable
from shared.event import EventStatus
from shared.ids import ScopeId, format_event_id
from shared.logs import get_logger
from shared.metrics import events_accepted
from shared.store.database import Database, HotConnection
from shared.store.events import NewEvent, StoredEvent, find_by_key
from shared.store.jobs import StoredJob, jobs_of_event
from shared.web.problems import problem, validation_failed

log = get_logger()


@dataclass(frozen=True, slots=True)
class Accepted:
    """An event that is safe in Postgres; ``replayed``: it already was, and ``jobs`` are what became of it."""

    event: StoredEvent
    replayed: bool
    jobs: tuple[StoredJob, ...] = ()


class Acceptor:
    """Accepts events: each exactly once per scope and idempotency key, whoever else posts it at the same time."""

    def __init__(self, database: Database, announcer: Announcer, within: timedelta) -> None:
        """``within``: how long a request waits for Postgres."""
        self._database = database
        self._announcer = announcer
        self._within = within
        self._commits = GroupCommit(database, within)

    async def accept(self, event: NewEvent) -> Accepted:
        """``event``, committed; or the one that has its key already, if it says the same.

        Raises Problem 422 ``idempotency_key_reused``, and StoreUnavailable: then perhaps it was committed all the
        same, and the same key finds out.
        """
        inserted = await self._commits.insert_if_new(event)
        if inserted is None:
            async with self._database.hot(self._within) as pg:
                earlier = await find_by_key(pg, event.scope_id, event.idempotency_key)
                return await _replay(pg, event.scope_id, earlier, event.body_hash)
        # Committed: a lost announcement is found by the republisher, a lost row would not be.
        if inserted.status is EventStatus.QUEUED:
            self._announcer.announce_soon([inserted.event_id])
        log.info("event.accepted", event_id=format_event_id(inserted.event_id), event_type=inserted.event_type)
        events_accepted.labels("new" if inserted.status is EventStatus.QUEUED else "scheduled").inc()
        return Accepted(inserted, replayed=False)

    async def accept_unfit(self, scope_id: ScopeId, unfit: Unfit) -> Accepted:
        """The event that this body was accepted as when it was still fit: schemas change.

        Raises Problem 422: ``validation_failed`` when the key is new, ``idempotency_key_reused`` when its event
        says something else.
        """
        if unfit.key is None:
            raise validation_failed(unfit.errors)
        async with self._database.hot(self._within) as pg:
            earlier = await find_by_key(pg, scope_id, unfit.key)
            if earlier is None:
                raise validation_failed(unfit.errors)
            return await _replay(pg, scope_id, earlier, unfit.body_hash)


async def _replay(pg: HotConnection, scope_id: ScopeId, earlier: StoredEvent | None, body_hash: bytes) -> Accepted:
    if earlier is None:
        raise StoreUnavailable("the event with this key was removed at this very moment")
    if earlier.body_hash != body_hash:
        event_id = format_event_id(earlier.event_id)
        raise problem("idempotency_key_reused", f"The key belongs to {event_id}, which says something else.")
    jobs = await jobs_of_event(pg, scope_id, earlier.event_id)
    events_accepted.labels("replayed").inc()
    return Accepted(earlier, replayed=True, jobs=tuple(jobs))
