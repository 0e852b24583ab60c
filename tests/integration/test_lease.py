"""What a worker does with the time its claim lasts: nothing is sent that could meet the next owner's attempt."""

import asyncio
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import asyncpg

from shared.delivery.provider import Parcel
from shared.store.database import Database
from shared.verdict import Delivered, Verdict
from tests.factories import claim_jobs, create_jobs, new_job, until
from tests.fakes.product import eventually
from tests.fakes.provider import ScriptedProvider, never
from tests.fakes.working import working

LEASE = timedelta(seconds=4)
ATTEMPT = timedelta(seconds=1)
MARGIN = timedelta(seconds=1)


async def verdicts(database: Database) -> list[tuple[object, ...]]:
    async with database.hot() as pg:
        rows = await pg.fetch("SELECT claim_seq, verdict, reason, possible_duplicate FROM attempts ORDER BY claim_seq")
    return [tuple(row) for row in rows]


async def until_sent(database: Database) -> None:
    async def sent() -> bool:
        async with database.hot() as pg:
            return bool(await pg.fetchval("SELECT bool_and(status = 'SENT') FROM outgoing"))

    await eventually(sent)


async def test_a_claim_whose_answer_came_too_late_is_given_back_and_never_sent(
    database: Database, database_url: str
) -> None:
    await create_jobs(database, [new_job()])
    provider = ScriptedProvider()
    somebody = await asyncpg.connect(database_url)
    try:
        # The claim has begun, and its lease with it, when it comes to this table.
        await somebody.execute("BEGIN; LOCK TABLE content IN ACCESS EXCLUSIVE MODE")
        async with working(database, provider, lease=LEASE, attempt_timeout=ATTEMPT, margin=MARGIN):

            async def too_late() -> bool:
                async with database.hot() as pg:
                    waits: timedelta | None = await pg.fetchval(
                        "SELECT max(now() - query_start) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                    )
                return waits is not None and waits > LEASE - ATTEMPT - MARGIN

            await eventually(too_late)
            await somebody.execute("COMMIT")
            await until_sent(database)
    finally:
        await somebody.close()
    assert len(provider.sent) == 1
    async with database.hot() as pg:
        row = await pg.fetchrow("SELECT claim_seq, attempts, lost, unanswered FROM outgoing")
    assert row is not None
    assert row["claim_seq"] > 1
    assert (row["attempts"], row["lost"], row["unanswered"]) == (1, 0, 0)
    assert await verdicts(database) == [(row["claim_seq"], "delivered", "", False)]


async def test_a_provider_that_takes_too_long_is_given_up_before_another_worker_may_send(database: Database) -> None:
    sends: list[tuple[float, float]] = []

    async def slow_at_first(parcel: Parcel) -> Verdict:
        parcel.progress.handed_over = True
        began, first = time.monotonic(), not sends
        sends.append((began, began))
        try:
            if first:
                await asyncio.Event().wait()
        finally:
            sends[0 if first else -1] = (began, time.monotonic())
        return Delivered()

    await create_jobs(database, [new_job()])
    patience: dict[str, Any] = {
        "lease": LEASE,
        "attempt_timeout": ATTEMPT,
        "margin": MARGIN,
        "unanswered_step": timedelta(milliseconds=100),
    }
    async with AsyncExitStack() as stack:
        for name in ("one", "other"):
            await stack.enter_async_context(working(database, ScriptedProvider(slow_at_first), name=name, **patience))
        await until_sent(database)
    (began, gave_up), (began_again, _) = sends
    assert gave_up - began < LEASE.total_seconds()
    assert began_again >= gave_up
    assert await verdicts(database) == [(1, "no_verdict", "after_handover", False), (2, "delivered", "", True)]


async def test_a_stop_gives_back_at_once_what_was_not_handed_over_and_counts_nothing(database: Database) -> None:
    await create_jobs(database, [new_job() for _ in range(3)])
    provider = ScriptedProvider(never)
    async with working(database, provider, attempt_timeout=timedelta(seconds=12)) as (_, stop):
        await until(lambda: len(provider.sent) == 3)
        stop()
    async with database.hot() as pg:
        rows = await pg.fetch("SELECT attempts, lost, unanswered, claim_seq = reported_seq AS settled FROM outgoing")
    assert [tuple(row) for row in rows] == [(0, 0, 0, True)] * 3
    assert await verdicts(database) == []
    assert len(await claim_jobs(database)) == 3
