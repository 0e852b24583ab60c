"""What every provider owes the engine, held against each of them with its real protocol on the wire.

It never raises. It says Delivered only of what was taken, and that something may have gone out whenever it may have,
and only then. One message is one message on the wire, and whatever happened before, the next one goes.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from shared.job import JobReason
from shared.store.database import Database
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict
from tests.factories import until
from tests.fakes.rigs import CONNECTIONS, RIGS, Answer, Rig


@pytest.fixture(params=list(RIGS))
async def rig(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[Rig]:
    async with RIGS[request.param](database) as ready:
        yield ready


def bare(verdict: Verdict) -> tuple[object, ...]:
    """What of a verdict every provider must agree on."""
    match verdict:
        case Rejected(reason, dead):
            return Rejected, reason, dead
        case NoVerdict():
            return NoVerdict, verdict.handed_over
        case _:
            return (type(verdict),)


async def test_what_is_taken_is_delivered_once_with_a_name_for_it(rig: Rig) -> None:
    parcel = rig.parcel()
    verdict = await rig.attempt(parcel)
    assert isinstance(verdict, Delivered)
    assert verdict.provider_id
    assert parcel.progress.handed_over
    assert rig.taken_count == 1


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (Answer.REFUSES, (Rejected, JobReason.REJECTED, False)),
        (Answer.IS_DEAD, (Rejected, JobReason.REJECTED, True)),
        (Answer.LATER, (Deferred,)),
        (Answer.IS_DOWN, (NoVerdict, False)),
        (Answer.BLOCKS_US, (SenderBlocked,)),
        (Answer.SAYS_GARBAGE, (NoVerdict, True)),
        (Answer.HANGS_UP, (NoVerdict, True)),
        (Answer.IS_SILENT, (NoVerdict, True)),
    ],
)
async def test_each_answer_has_its_verdict_and_the_next_message_goes(
    rig: Rig, answer: Answer, verdict: tuple[object, ...]
) -> None:
    rig.answers(answer)
    told = await rig.attempt(rig.parcel())
    rig.answers(Answer.TAKES)
    # A target that died is forgotten by the engine, with the verdict: here it simply answers again.
    before = rig.taken_count
    assert isinstance(await rig.attempt(rig.parcel()), Delivered)
    assert rig.taken_count == before + 1
    assert bare(told) == verdict


async def test_nobody_at_the_other_end_is_no_verdict_and_nothing_went_out(rig: Rig) -> None:
    verdict, parcel = await rig.to_nobody()
    assert bare(verdict) == (NoVerdict, False)
    assert not parcel.progress.handed_over


async def test_an_attempt_cut_off_in_the_middle_says_how_far_it_came_and_leaves_nothing_behind(rig: Rig) -> None:
    rig.answers(Answer.IS_SILENT)
    parcel = rig.parcel()
    attempt = asyncio.create_task(rig.attempt(parcel))
    await until(lambda: parcel.progress.handed_over)
    attempt.cancel()
    assert bare(await attempt) == (NoVerdict, True)
    rig.answers(Answer.TAKES)
    assert isinstance(await rig.attempt(rig.parcel()), Delivered)


async def test_a_shutdown_in_the_middle_still_has_a_verdict_and_is_no_end(rig: Rig) -> None:
    rig.answers(Answer.IS_SILENT)
    parcel = rig.parcel()
    attempt = asyncio.create_task(rig.attempt(parcel))
    await until(lambda: parcel.progress.handed_over)
    await rig.provider.close()
    assert bare(await attempt) == (NoVerdict, True)
    rig.answers(Answer.TAKES)
    assert isinstance(await rig.attempt(rig.parcel()), Delivered)


async def test_more_at_once_than_there_are_connections_all_go_and_each_goes_once(rig: Rig) -> None:
    count = 3 * CONNECTIONS
    verdicts = await asyncio.gather(*(rig.attempt(rig.parcel()) for _ in range(count)))
    assert [type(verdict) for verdict in verdicts] == [Delivered] * count
    assert rig.taken_count == count


async def test_a_service_that_was_down_for_long_leaks_no_connection(rig: Rig) -> None:
    rig.answers(Answer.IS_DOWN)
    for _ in range(3 * CONNECTIONS):
        assert bare(await rig.attempt(rig.parcel())) == (NoVerdict, False)
    rig.answers(Answer.TAKES)
    verdicts = await asyncio.gather(*(rig.attempt(rig.parcel()) for _ in range(2 * CONNECTIONS)))
    assert [type(verdict) for verdict in verdicts] == [Delivered] * (2 * CONNECTIONS)
