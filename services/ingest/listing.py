"""The lists of events and jobs: which entries a page has, and where the next one begins."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from services.ingest.schemas import EventsOut, JobsOut
from services.ingest.sieve import Sieve, find_page
from services.ingest.views import show_listed_event, show_listed_job
from shared.event import derive_outcome
from shared.ids import ScopeId
from shared.store.database import Database, HotConnection
from shared.store.event_lists import (
    FIRST_INSTANT,
    LAST_INSTANT,
    EventFilters,
    EventKey,
    EventPlace,
    collect,
    find_keys,
    find_keys_among,
    job_statuses,
)
from shared.store.events import read_events
from shared.store.job_lists import JobFilters, JobKey, find_failed, find_jobs, types_of_jobs
from shared.store.jobs import jobs_of_events, read_jobs
from shared.web.query import Bigint, ListQuery

MICROSECOND = timedelta(microseconds=1)


class EventPosition(msgspec.Struct, array_like=True, frozen=True):
    """Where a page of events ended: microseconds since 1970, and an event's id."""

    received_us: Bigint
    event_id: UUID


class JobPosition(msgspec.Struct, array_like=True, frozen=True):
    """Where a page of jobs ended."""

    job_id: Bigint


class FailedPosition(msgspec.Struct, array_like=True, frozen=True):
    """Where a page of failed jobs ended: microseconds since 1970, and a job's id."""

    finished_us: Bigint
    job_id: Bigint


class Lister:
    """Gives pages of what a scope has; each page is seen at one moment, and its work is bounded."""

    def __init__(self, database: Database, within: timedelta) -> None:
        """``within``: how long a request waits for Postgres."""
        self._database = database
        self._within = within

    async def events(self, scope_id: ScopeId, query: ListQuery[EventPosition]) -> EventsOut:
        """The scope's events, the last received first."""
        filters = event_filters(query.filters)
        after = None if query.after is None else EventPlace(_instant(query.after.received_us), query.after.event_id)
        async with self._database.hot(self._within) as pg, pg.transaction(isolation="repeatable_read", readonly=True):
            find = partial(find_keys, pg, scope_id, filters)
            candidates = None if filters.outcome is None else await collect(pg, scope_id, filters.outcome)
            if candidates is not None:
                find = partial(find_keys_among, pg, scope_id, filters, event_ids=candidates)
            sieve = None if filters.is_exact else _sieve_events(pg, scope_id, filters)
            keys, next_place = await find_page(find, _place_of_event, sieve, after, query.limit)
            event_ids = [key.event_id for key in keys]
            events = await read_events(pg, scope_id, event_ids)
            jobs = await jobs_of_events(pg, scope_id, event_ids)
        return EventsOut(
            [show_listed_event(event, jobs.get(event.event_id, ())) for event in events],
            None
            if next_place is None
            else query.write_cursor(EventPosition(_microseconds(next_place.received_at), next_place.event_id)),
        )

    async def jobs(self, scope_id: ScopeId, query: ListQuery[JobPosition]) -> JobsOut:
        """The scope's jobs, the last created first."""
        filters = job_filters(query.filters)
        after = None if query.after is None else query.after.job_id
        async with self._database.hot(self._within) as pg, pg.transaction(isolation="repeatable_read", readonly=True):
            find = partial(find_jobs, pg, scope_id, filters)
            sieve = None if filters.event_type is None else sieve_jobs(pg, scope_id, filters)
            keys, next_place = await find_page(find, lambda key: int(key.job_id), sieve, after, query.limit)
            jobs = await read_jobs(pg, scope_id, keys)
        return JobsOut(
            [show_listed_job(job) for job in jobs],
            None if next_place is None else query.write_cursor(JobPosition(next_place)),
        )

    async def failed_jobs(self, scope_id: ScopeId, query: ListQuery[FailedPosition]) -> JobsOut:
        """The scope's jobs that FAILED, the last to fail first."""
        filters = job_filters(query.filters)
        after = None if query.after is None else (_instant(query.after.finished_us), query.after.job_id)
        async with self._database.hot(self._within) as pg, pg.transaction(isolation="repeatable_read", readonly=True):
            find = partial(find_failed, pg, scope_id, filters)
            sieved = filters.event_type is not None or filters.reason is not None
            sieve = sieve_jobs(pg, scope_id, filters) if sieved else None
            keys, next_place = await find_page(find, place_of_failed, sieve, after, query.limit)
            jobs = await read_jobs(pg, scope_id, keys)
        return JobsOut(
            [show_listed_job(job) for job in jobs],
            None
            if next_place is None
            else query.write_cursor(FailedPosition(_microseconds(next_place[0]), next_place[1])),
        )


def event_filters(values: Mapping[str, Any]) -> EventFilters:
    """The filters of the list of events, from the parameters of its address."""
    return EventFilters(
        event_type=values.get("event_type"),
        status=values.get("status"),
        outcome=values.get("outcome"),
        ref=values.get("ref"),
        recipient_id=values.get("recipient"),
        received_from=_within_calendar(values.get("received_after"), FIRST_INSTANT),
        received_until=_within_calendar(values.get("received_before"), LAST_INSTANT),
    )


def job_filters(values: Mapping[str, Any]) -> JobFilters:
    """The filters of either list of jobs, from the parameters of its address."""
    return JobFilters(
        channel=values.get("channel"),
        status=values.get("status"),
        reason=values.get("reason"),
        event_type=values.get("event_type"),
        finished_from=_within_calendar(values.get("failed_after"), FIRST_INSTANT),
        finished_until=_within_calendar(values.get("failed_before"), LAST_INSTANT),
    )


def _sieve_events(pg: HotConnection, scope_id: ScopeId, filters: EventFilters) -> "Sieve[EventKey]":
    async def sieve(keys: Sequence[EventKey]) -> list[EventKey]:
        suitable = [key for key in keys if filters.suit(key)]
        if filters.outcome is None:
            return suitable
        statuses = await job_statuses(pg, scope_id, [key.event_id for key in suitable])
        return [
            key for key in suitable if derive_outcome(key.status, statuses.get(key.event_id, [])) == filters.outcome
        ]

    return sieve


def sieve_jobs(pg: HotConnection, scope_id: ScopeId, filters: JobFilters) -> "Sieve[JobKey]":
    """Lets through the jobs that ``filters`` want by reason and event type."""

    async def sieve(keys: Sequence[JobKey]) -> list[JobKey]:
        suitable = [key for key in keys if filters.reason in (None, key.reason)]
        if filters.event_type is None:
            return suitable
        types = await types_of_jobs(pg, scope_id, suitable)
        return [key for key in suitable if types.get(key.job_id) == filters.event_type]

    return sieve


def _place_of_event(key: EventKey) -> EventPlace:
    return EventPlace(key.received_at, key.event_id)


def place_of_failed(key: JobKey) -> tuple[datetime, int]:
    """Where a failed job stands in its list."""
    return key.finished_at or FIRST_INSTANT, key.job_id


def _within_calendar(instant: datetime | None, otherwise: datetime) -> datetime:
    """``instant``, or the nearest that the database and we can both count to."""
    return otherwise if instant is None else min(max(instant, FIRST_INSTANT), LAST_INSTANT)


def _microseconds(instant: datetime) -> int:
    return (instant - FIRST_INSTANT) // MICROSECOND


def _instant(microseconds: int) -> datetime:
    try:
        return FIRST_INSTANT + timedelta(microseconds=microseconds)
    except OverflowError:
        # A cursor that nobody was given.
        return LAST_INSTANT.astimezone(UTC)
