"""Reading what became of events and jobs, for one scope."""

from datetime import date, timedelta

from services.ingest.figures import figures_of
from services.ingest.schemas import EventOut, MetricsOut
from services.ingest.views import show_whole_event
from shared.ids import ScopeId, parse_event_id
from shared.job import JobStatus
from shared.store.database import Database
from shared.store.events import read_event
from shared.store.jobs import jobs_of_event
from shared.store.ledger import ledger_of_scope
from shared.store.receipts import receipts_of_event
from shared.store.waits import pauses_of_scope
from shared.web.problems import problem


class Reader:
    """Answers the questions of products; another scope's rows do not exist for it."""

    def __init__(self, database: Database, within: timedelta) -> None:
        """``within``: how long a request waits for Postgres."""
        self._database = database
        self._within = within

    async def event(self, scope_id: ScopeId, text: str) -> EventOut:
        """The event with the id ``text``, its jobs and attempts. Raises Problem 404."""
        event_id = parse_event_id(text)
        if event_id is None:
            raise problem("event_not_found", "An event's id is evt_ and 32 hexadecimal digits.")
        async with self._database.hot(self._within) as pg:
            event = await read_event(pg, scope_id, event_id)
            # Only after the event: its jobs may have come since, but none can be missing.
            jobs = [] if event is None else await jobs_of_event(pg, scope_id, event_id)
            receipts = {} if event is None else await receipts_of_event(pg, scope_id, event_id)
            waits = any(job.status is JobStatus.PENDING for job in jobs)
            pauses = await pauses_of_scope(pg, scope_id) if waits else []
        if event is None:
            raise problem("event_not_found", f"This key's tenant and mode have no event {text}.")
        return show_whole_event(event, jobs, receipts, pauses)

    async def metrics(self, scope_id: ScopeId, since: date) -> MetricsOut:
        """The scope's figures as the ledger has them, of what was created on ``since`` or later."""
        async with self._database.hot(self._within) as pg:
            return figures_of(await ledger_of_scope(pg, scope_id, since))
