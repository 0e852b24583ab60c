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
from tests.fakes.answers import Answer
from tests.fakes.rigs import ATTEMPT, CONNECTIONS, RIGS, Rig


@pytest.fixture(params=list(RIGS))
async def rig(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[Rig]:
    async with RIGS[request.param](database, ATTEMPT) as ready:
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
    parcel = rig.parcel()
    told = await rig.attempt(parcel)
    assert rig.asked_count == parcel.progress.handed_over, "one message is asked for once, and known to have been"
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


async def test_a_slow_answer_is_waited_for_and_is_as_good_as_a_quick_one(rig: Rig) -> None:
    rig.answers(Answer.IS_SLOW)
    attempts = [asyncio.create_task(rig.attempt(rig.parcel())) for _ in range(2)]
    await until(lambda: rig.asked_count == 2)
    assert rig.taken_count == 0
    rig.answering.set()
    assert [type(verdict) for verdict in await asyncio.gather(*attempts)] == [Delivered] * 2
    assert rig.taken_count == rig.asked_count == 2


async def test_whoever_finds_no_free_connection_in_time_knows_that_nothing_went_out(rig: Rig) -> None:
    rig.answers(Answer.IS_SILENT)
    parcels = [rig.parcel() for _ in range(2 * CONNECTIONS)]
    verdicts = await asyncio.gather(*(rig.attempt(parcel) for parcel in parcels))
    handed_over = [parcel.progress.handed_over for parcel in parcels]
    assert [bare(verdict) for verdict in verdicts] == [(NoVerdict, one) for one in handed_over]
    assert 0 < sum(handed_over) == rig.asked_count <= CONNECTIONS
    await works_and_leaves_nothing_open(rig)


async def test_attempts_cut_off_while_they_wait_for_a_connection_have_handed_nothing_over(rig: Rig) -> None:
    rig.answers(Answer.IS_SLOW)
    parcels = [rig.parcel() for _ in range(2 * CONNECTIONS)]
    attempts = [asyncio.create_task(rig.attempt(parcel)) for parcel in parcels]
    await until(lambda: rig.asked_count > 0)
    left_behind = [parcel for parcel in parcels if not parcel.progress.handed_over]
    for attempt, parcel in zip(attempts, parcels, strict=True):
        if parcel in left_behind:
            attempt.cancel()
    assert len(left_behind) >= CONNECTIONS
    rig.answering.set()
    verdicts = zip(parcels, await asyncio.gather(*attempts), strict=True)
    assert {(parcel in left_behind, bare(verdict)) for parcel, verdict in verdicts} == {
        (True, (NoVerdict, False)),
        (False, (Delivered,)),
    }
    assert rig.taken_count == rig.asked_count == len(parcels) - len(left_behind)


async def test_more_at_once_than_there_are_connections_all_go_and_each_goes_once(rig: Rig) -> None:
    count = 3 * CONNECTIONS
    verdicts = await asyncio.gather(*(rig.attempt(rig.parcel()) for _ in range(count)))
    assert [verdict for verdict in verdicts if not isinstance(verdict, Delivered)] == []
    assert rig.taken_count == rig.asked_count == count
    assert 0 < rig.most_at_once <= CONNECTIONS


@pytest.mark.parametrize("answer", [Answer.IS_DOWN, Answer.HANGS_UP, Answer.SAYS_GARBAGE])
async def test_a_service_in_trouble_for_long_leaks_no_connection(rig: Rig, answer: Answer) -> None:
    rig.answers(answer)
    verdicts = [await rig.attempt(rig.parcel()) for _ in range(3 * CONNECTIONS)]
    assert {type(verdict) for verdict in verdicts} == {NoVerdict}
    await works_and_leaves_nothing_open(rig)


async def works_and_leaves_nothing_open(rig: Rig) -> None:
    """Everything goes again, over as few connections as ever, and none of them outlives the provider."""
    rig.answers(Answer.TAKES)
    verdicts = await asyncio.gather(*(rig.attempt(rig.parcel()) for _ in range(2 * CONNECTIONS)))
    assert [verdict for verdict in verdicts if not isinstance(verdict, Delivered)] == []
    await until(lambda: rig.open_count <= CONNECTIONS)
    await rig.provider.close()
    await until(lambda: rig.open_count == 0)
