"""The feed's numbers: every change once, in an order that no slow transaction upsets, and none missing for ever."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import permutations
from typing import Any

from services.ingest.gauges import Gauges
from shared.channel import Channel
from shared.ids import EventId, ScopeId
from shared.job import JobReason, JobStatus
from shared.metrics import REGISTRY
from shared.store.change_feed import Change, extent_of, read_after
from shared.store.database import Database
from shared.store.inbox_delivery import enter_siblings
from shared.store.numbering import number_visible
from shared.store.outgoing import NewJob, create_if_missing
from tests.factories import create_jobs, new_job
from tests.fakes.changes import change_mistakes, number_all
from tests.fakes.ingest import running_ingest
from tests.fakes.product import eventually

SCOPE, OTHER = ScopeId(1), ScopeId(2)


def skipped(scope_id: int = SCOPE, channel: Channel = Channel.EMAIL) -> NewJob:
    """A job that is finished at birth: the smallest change there is."""
    born = new_job(scope_id=scope_id, channel=channel)
    return replace(born, status=JobStatus.SKIPPED, reason=JobReason.PREFERENCE, body=None)


async def read(database: Database, after: int = 0, limit: int = 50, scope_id: ScopeId = SCOPE) -> list[Change]:
    async with database.hot() as pg:
        return await read_after(pg, scope_id, after, limit)


def ids(changes: Sequence[Change]) -> list[EventId | None]:
    return [change.event_id for change in changes]


@asynccontextmanager
async def slow(database: Database, *jobs: NewJob) -> AsyncIterator[None]:
    """Somebody has made ``jobs`` and does not commit before the block ends."""
    async with database.hot() as pg, pg.transaction():
        await create_if_missing(pg, jobs)
        yield


async def test_what_commits_late_comes_after_what_a_reader_has_seen_already(database: Database) -> None:
    # On another channel: on one and the same, the ledger's row would have the second wait for the first.
    first, second = skipped(), skipped(channel=Channel.PUSH)
    async with slow(database, first):
        await create_jobs(database, [second])
        assert await number_all(database) == 1
        assert ids(seen := await read(database)) == [second.event_id]
    await number_all(database)
    assert ids(await read(database, after=seen[-1].seq)) == [first.event_id]
    assert await change_mistakes(database) == []


async def test_a_reader_beside_many_writers_misses_nothing_and_sees_nothing_twice(database: Database) -> None:
    made: list[EventId] = []
    writing = True

    async def write() -> None:
        for count, order in enumerate(permutations(Channel), start=1):
            jobs = {channel: [skipped(channel=channel) for _ in range(count)] for channel in Channel}
            under_way = {channel: slow(database, *some) for channel, some in jobs.items()}
            for one in under_way.values():
                await one.__aenter__()
            for channel in order:
                await under_way[channel].__aexit__(None, None, None)
            made.extend(job.event_id for some in jobs.values() for job in some)

    async def sweep() -> None:
        while writing:
            await number_all(database)

    async def follow() -> list[Change]:
        seen: list[Change] = []
        while writing or len(seen) < len(made):
            seen += await read(database, after=seen[-1].seq if seen else 0, limit=7)
            await number_all(database)
        return seen

    async with asyncio.TaskGroup() as group:
        following = group.create_task(follow())
        group.create_task(sweep())
        await write()
        writing = False
    seen = following.result()
    assert sorted(ids(seen), key=str) == sorted(made, key=str)
    assert [change.seq for change in seen] == list(range(1, len(made) + 1))
    assert await change_mistakes(database) == []


async def test_an_idle_transaction_elsewhere_does_not_hold_the_feed_up(database: Database) -> None:
    async with database.hot() as pg, pg.transaction(isolation="repeatable_read"):
        await pg.execute("CREATE TEMPORARY TABLE held AS SELECT pg_current_xact_id()")
        for turn in range(3):
            await create_jobs(database, [skipped()])
            assert await number_all(database) == 1
            assert len(await read(database)) == turn + 1


async def test_a_page_may_begin_and_end_inside_of_what_was_told_at_once(database: Database) -> None:
    jobs = [skipped() for _ in range(10)]
    await create_jobs(database, jobs[:4])
    await create_jobs(database, jobs[4:5])
    await create_jobs(database, jobs[5:])
    await create_jobs(database, [skipped(OTHER)])
    await number_all(database)
    whole = await read(database)
    assert {*ids(whole[:4])} == {job.event_id for job in jobs[:4]}
    assert {*ids(whole[5:])} == {job.event_id for job in jobs[5:]}
    for after in range(11):
        for limit in range(1, 12):
            page = await read(database, after, limit)
            assert page == whole[after : after + limit], (after, limit)
    assert [change.seq for change in await read(database, scope_id=OTHER)] == [1]


async def test_one_statement_tells_of_a_thousand_jobs_in_a_few_rows(database: Database) -> None:
    jobs = [new_job(channel=Channel.INAPP, scope_id=number % 2 + 1) for number in range(1000)]
    await create_jobs(database, jobs)
    async with database.hot() as pg:
        await enter_siblings(pg, [job.event_id for job in jobs])
        assert await pg.fetchval("SELECT count(*) FROM changes") == 2
    await number_all(database)
    assert len(await read(database, limit=1000)) == 500
    assert await change_mistakes(database) == []


async def test_two_sweeps_at_once_number_each_row_once(database: Database) -> None:
    for _ in range(20):
        await create_jobs(database, [skipped(), skipped(OTHER)])
    assert sum(await asyncio.gather(*(number_all(database) for _ in range(6)))) == 40
    assert await change_mistakes(database) == []
    async with database.hot() as pg:
        assert (await extent_of(pg, SCOPE)).last_seq == 20


async def test_a_sweep_that_is_cut_short_is_taken_up_where_it_ended(database: Database) -> None:
    jobs = [skipped() for _ in range(5)]
    for job in jobs:
        await create_jobs(database, [job])
    async with database.hot() as pg:
        for _ in range(3):
            async with pg.transaction():
                await number_visible(pg, 0, 2)
    assert ids(await read(database)) == [job.event_id for job in jobs]


async def test_what_waits_for_its_number_is_told_in_metrics(database: Database) -> None:
    async def waiting() -> float | None:
        await Gauges(database).look()
        return REGISTRY.get_sample_value("waybill_changes_waiting_seconds")

    assert await waiting() == 0
    await create_jobs(database, [skipped()])
    async with database.hot() as pg:
        await pg.execute("UPDATE changes SET at = at - interval '90 seconds'")
    assert 90 <= (await waiting() or 0) < 200
    await number_all(database)
    assert await waiting() == 0


async def test_numbers_are_given_even_if_transactions_are_counted_anew(database: Database) -> None:
    await create_jobs(database, [skipped()])
    async with database.hot() as pg, pg.transaction():
        # As after a dump was restored on a server that has seen more: nothing new is as high as the bound that was.
        await pg.execute("UPDATE changes SET written_by = 1")
        numbered = await number_visible(pg, 10**15, 10)
        assert numbered is not None
        assert (numbered.count, numbered.bound < 10**15) == (0, True)
    assert await number_all(database) == 1


async def test_feeds_move_on_by_themselves_while_ingest_runs(database: Database) -> None:
    async with running_ingest(database) as ingest:
        scope_id = next(iter(ingest.scopes.values()))
        await create_jobs(database, [skipped(scope_id)])

        async def told() -> Any:
            return await read(database, scope_id=scope_id) or None

        assert len(await eventually(told)) == 1
