"""Every provider in the hands of a real worker: what a stop cuts off, and what is written down of each message."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from shared.store.database import Database
from tests.factories import WAIT_SECONDS, create_jobs
from tests.fakes.answers import Answer
from tests.fakes.ledger import ledger_mistakes
from tests.fakes.rigs import CONNECTIONS, RIGS, Rig
from tests.fakes.working import working

PATIENT = timedelta(seconds=60)
"""No attempt ends by itself within a test."""
TERMS: dict[str, Any] = {"lease": 3 * PATIENT, "attempt_timeout": PATIENT, "slots": 3 * CONNECTIONS}


@pytest.fixture(params=list(RIGS))
async def rig(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[Rig]:
    async with RIGS[request.param](database, PATIENT) as ready:
        yield ready
        assert await ledger_mistakes(database) == []


async def jobs_of(database: Database) -> list[tuple[str, int, int, int]]:
    """Status, attempts, unanswered and unknowns of every job."""
    async with database.hot() as pg:
        rows = await pg.fetch("SELECT status, attempts, unanswered, unknowns FROM outgoing ORDER BY job_id")
    return [tuple(row) for row in rows]


async def attempts_of(database: Database) -> list[tuple[str, str, bool]]:
    """Verdict, reason and flag of every attempt, in their order."""
    async with database.hot() as pg:
        rows = await pg.fetch("SELECT verdict, reason, possible_duplicate FROM attempts ORDER BY claim_seq, job_id")
    return [tuple(row) for row in rows]


async def until_counted(database: Database, query: str, count: int) -> None:
    """Wait until the one number that ``query`` asks for is ``count``."""
    async with asyncio.timeout(WAIT_SECONDS), database.hot() as pg:
        while await pg.fetchval(query) != count:
            await asyncio.sleep(0.02)


IN_HAND = "SELECT count(*) FROM outgoing WHERE claim_seq > reported_seq"
REPORTED = "SELECT coalesce(sum(reported_seq), 0) FROM outgoing"


async def test_a_stop_in_the_middle_gives_back_what_was_not_handed_over_and_says_of_the_rest_that_it_was(
    rig: Rig, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.delivery.worker.FINISH_SECONDS", 0.1)
    rig.answers(Answer.IS_SILENT)
    count = CONNECTIONS + 2
    await create_jobs(database, [rig.job() for _ in range(count)])
    async with working(database, rig.provider, channel=rig.channel, **TERMS) as (_worker, stop):
        await until_counted(database, IN_HAND, count)
        async with asyncio.timeout(WAIT_SECONDS):
            # Firebase, push services and relays let in a few at once; the others wait in line for a connection.
            while not 0 < rig.asked_count == rig.open_count:
                await asyncio.sleep(0.02)
        stop()
    handed_over = rig.asked_count
    assert 0 < handed_over <= CONNECTIONS
    assert await attempts_of(database) == [("no_verdict", "after_handover", False)] * handed_over
    assert sorted(await jobs_of(database)) == sorted(
        [("PENDING", 0, 0, 1)] * handed_over + [("PENDING", 0, 0, 0)] * (count - handed_over)
    )
    async with database.hot() as pg:
        assert await pg.fetchval(IN_HAND) == 0, "the next worker need not wait for a lease"
        at_once = await pg.fetchval("SELECT count(*) FROM outgoing WHERE due_at <= now()")
    assert at_once == count - handed_over


async def test_no_attempt_that_is_written_down_asks_for_its_message_twice(rig: Rig, database: Database) -> None:
    await create_jobs(database, [rig.job()])
    asked = [0]
    async with working(database, rig.provider, channel=rig.channel, **TERMS):
        for rounds, answer in enumerate((Answer.HANGS_UP, Answer.SAYS_GARBAGE, Answer.IS_DOWN, Answer.TAKES), 1):
            rig.answers(answer)
            if rounds > 1:
                async with database.hot() as pg:
                    await pg.execute("UPDATE outgoing SET due_at = now()")
            await until_counted(database, REPORTED, rounds)
            asked.append(rig.asked_count)
    assert await attempts_of(database) == [
        ("no_verdict", "after_handover", False),
        ("no_verdict", "after_handover", True),
        ("no_verdict", "before_handover", True),
        ("delivered", "", True),
    ]
    # A relay that is down is not even told of the mail.
    assert [after - before for before, after in pairwise(asked)] in ([1, 1, 1, 1], [1, 1, 0, 1])
    assert await jobs_of(database) == [("SENT", 1, 0, 2)]
