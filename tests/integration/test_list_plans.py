"""What a page costs: a bounded number of rows from indexes, however many there are, whichever plan is made."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from shared.channel import Channel
from shared.event import EventStatus, Outcome
from shared.ids import ScopeId
from shared.job import JobReason, JobStatus
from shared.store import event_lists, job_lists
from shared.store.database import Database
from shared.store.event_lists import EventFilters, EventPlace
from shared.store.events import read_events
from shared.store.job_lists import JobFilters
from shared.store.jobs import jobs_of_events, read_jobs
from tests.fakes.plans import Watched
from tests.fakes.postgres import Databases

EVENTS = 30_000
SCOPE = ScopeId(1)
LIMIT = 51
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
NOW = SINCE + timedelta(minutes=EVENTS)
MIDDLE = EventPlace(SINCE + timedelta(minutes=EVENTS / 2), UUID(int=2**127))

# One scope of three; of ten events one has a ref; of a thousand one FAILED, one is still QUEUED and one job FAILED.
FILL = (
    f"""
    INSERT INTO events (event_id, scope_id, idempotency_key, body_hash, event_type, ref, recipient, payload, status,
                        reason, file_version, received_at, expires_at, routed_at, announced_at)
    SELECT gen_random_uuid(), 1 + n % 3, n::text, decode(repeat('00', 32), 'hex'), 'type_' || n % 7,
           CASE WHEN n % 10 = 0 THEN 'ref-' || n % 1000 END, json_build_object('id', 'r' || n % 500), '{{}}',
           CASE n % 1000 WHEN 3 THEN 'FAILED' WHEN 6 THEN 'QUEUED' ELSE 'ROUTED' END,
           CASE n % 1000 WHEN 3 THEN 'routing_failed' ELSE '' END, 1,
           '{SINCE:%Y-%m-%d}'::timestamptz + n * interval '1 minute', now(),
           CASE WHEN n % 1000 IN (3, 6) THEN NULL ELSE now() END, now()
    FROM generate_series(1, {EVENTS}) AS n
    """,
    """
    INSERT INTO outgoing (event_id, scope_id, channel, status, reason, max_attempts, expires_at, finished_at)
    SELECT event_id, scope_id, channel,
           CASE WHEN idempotency_key::int % 1000 = 9 AND channel = 'email' THEN 'FAILED' ELSE 'SENT' END,
           CASE WHEN idempotency_key::int % 1000 = 9 AND channel = 'email' THEN 'expired' ELSE '' END,
           3, now(), received_at
    FROM events, unnest(ARRAY['email', 'inapp', 'push']) AS channel
    WHERE status = 'ROUTED'
    """,
    "VACUUM ANALYZE events",
    "VACUUM ANALYZE outgoing",
)


@pytest.fixture(scope="module")
async def filled(databases: Databases) -> Any:
    async with databases.fresh() as url:
        database = Database(url)
        async with database.hot() as pg:
            for statement in FILL:
                await pg.execute(statement)
        yield database
        await database.close()


@pytest.fixture(params=["force_custom_plan", "force_generic_plan"])
async def watched(filled: Database, request: pytest.FixtureRequest) -> Any:
    async with filled.hot() as pg, pg.transaction():
        await pg.execute(f"SET LOCAL plan_cache_mode = {request.param}")
        yield Watched(pg)


FILTERS = {
    "none": EventFilters(),
    "type": EventFilters(event_type="type_3"),
    "rare type": EventFilters(event_type="nobody_has_this"),
    "ref": EventFilters(ref="ref-10"),
    "recipient": EventFilters(recipient_id="r7"),
    "status": EventFilters(status=EventStatus.FAILED),
    "range": EventFilters(received_from=SINCE + timedelta(days=1), received_until=SINCE + timedelta(days=2)),
    "old range": EventFilters(received_until=SINCE - timedelta(days=1)),
    "type and range": EventFilters(event_type="type_3", received_until=SINCE + timedelta(days=1)),
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("after", [None, MIDDLE], ids=["first page", "middle"])
async def test_a_page_of_events_reads_no_more_than_it_shows(watched: Any, name: str, after: EventPlace | None) -> None:
    await event_lists.find_keys(watched, SCOPE, FILTERS[name], after, LIMIT)
    assert watched.scanned == set()
    assert watched.most_rows <= 2 * LIMIT


@pytest.mark.parametrize("outcome", event_lists.LEFT_BY)
async def test_a_rare_outcome_is_collected_from_what_it_leaves_behind(watched: Any, outcome: Outcome) -> None:
    collected = await event_lists.collect(watched, SCOPE, outcome)
    assert collected is not None
    keys = await event_lists.find_keys_among(watched, SCOPE, EventFilters(), None, LIMIT, collected)
    await event_lists.job_statuses(watched, SCOPE, [key.event_id for key in keys])
    assert bool(keys) == (outcome in (Outcome.FAILED, Outcome.IN_PROGRESS, Outcome.PARTLY_SENT))
    assert watched.scanned == set()
    assert watched.most_rows <= 4 * LIMIT


@pytest.mark.parametrize(
    "filters",
    [
        JobFilters(),
        JobFilters(channel=Channel.EMAIL),
        JobFilters(status=JobStatus.FAILED),
        JobFilters(status=JobStatus.PENDING),
        JobFilters(reason=JobReason.EXPIRED),
    ],
)
@pytest.mark.parametrize("before", [None, EVENTS])
async def test_a_page_of_jobs_reads_a_page_of_each_stream_at_most(
    watched: Any, filters: JobFilters, before: int | None
) -> None:
    keys = await job_lists.find_jobs(watched, SCOPE, filters, before, LIMIT)
    await job_lists.types_of_jobs(watched, SCOPE, keys)
    assert watched.scanned == set()
    assert watched.most_rows <= len(filters.channels) * len(filters.states()) * LIMIT


@pytest.mark.parametrize("before", [None, (SINCE + timedelta(days=10), 5)])
async def test_a_page_of_failed_jobs_reads_failed_jobs_only(watched: Any, before: tuple[datetime, int] | None) -> None:
    assert await job_lists.find_failed(watched, SCOPE, JobFilters(), before, LIMIT)
    assert watched.scanned == set()
    assert watched.most_rows <= len(Channel) * LIMIT


async def test_what_a_page_shows_is_read_by_its_keys(watched: Any) -> None:
    keys = await event_lists.find_keys(watched, SCOPE, EventFilters(), MIDDLE, LIMIT)
    event_ids = [key.event_id for key in keys]
    assert len(await read_events(watched, SCOPE, event_ids)) == LIMIT
    assert len(await jobs_of_events(watched, SCOPE, event_ids)) >= LIMIT - 2
    failed = await job_lists.find_failed(watched, SCOPE, JobFilters(), None, LIMIT)
    assert len(await read_jobs(watched, SCOPE, failed)) == len(failed) > 0
    assert watched.scanned <= {"attempts"}, "the only table with nothing in it"
    assert watched.most_rows <= len(Channel) * LIMIT
