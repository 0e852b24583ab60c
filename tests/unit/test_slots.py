"""Slots: as many at once as there are, each thing once, and what ends them."""

import asyncio

import pytest

from shared.delivery.limit import TimeLimit
from shared.delivery.slots import Slots

SECONDS = 10.0


async def test_everything_given_is_done_once_and_never_more_than_slots_at_once() -> None:
    done: list[int] = []
    at_once = most_at_once = 0

    async def work(thing: int) -> None:
        nonlocal at_once, most_at_once
        at_once += 1
        most_at_once = max(most_at_once, at_once)
        if thing % 3:
            await asyncio.sleep(0.001)
        done.append(thing)
        at_once -= 1

    slots = Slots(4, work)
    for thing in range(200):
        slots.give(thing)
    assert await slots.until_empty(SECONDS)
    assert sorted(done) == list(range(200))
    assert most_at_once == 4
    assert (slots.taken_count, slots.free_count) == (0, 4)
    await slots.close()


async def test_what_is_given_while_others_wait_starts_at_once() -> None:
    waiting, started = asyncio.Event(), asyncio.Event()

    async def work(thing: str) -> None:
        await (waiting.wait() if thing == "slow" else asyncio.sleep(0))
        if thing == "quick":
            started.set()

    slots = Slots(2, work)
    slots.give("slow")
    await asyncio.sleep(0)
    slots.give("quick")
    async with asyncio.timeout(SECONDS):
        await started.wait()
    assert slots.taken_count == 1
    waiting.set()
    assert await slots.until_empty(SECONDS)
    await slots.close()


async def test_a_slot_that_breaks_takes_no_other_thing_with_it() -> None:
    done = []

    async def work(thing: int) -> None:
        await asyncio.sleep(0)
        if thing % 2:
            raise RuntimeError(thing)
        done.append(thing)

    slots = Slots(3, work)
    for thing in range(20):
        slots.give(thing)
    assert await slots.until_empty(SECONDS)
    assert sorted(done) == list(range(0, 20, 2))
    await slots.close()


async def test_cut_off_work_notices_once_and_the_rest_goes_on() -> None:
    ended: list[tuple[int, bool]] = []

    async def work(thing: int) -> None:
        try:
            await asyncio.Event().wait() if thing < 2 else None
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # what it still has to do is not cancelled again
            ended.append((thing, True))
        else:
            ended.append((thing, False))

    slots = Slots(2, work)
    for thing in range(4):
        slots.give(thing)
    assert not await slots.until_empty(0.01)
    slots.cut_off()
    assert await slots.until_empty(SECONDS)
    assert sorted(ended) == [(0, True), (1, True), (2, False), (3, False)]
    await slots.close()


async def test_a_time_limit_cancels_who_is_late_and_nobody_else() -> None:
    limit = TimeLimit(0.05)

    async def take(event: asyncio.Event | None) -> str:
        task = asyncio.current_task()
        assert task is not None
        limit.begin(task)
        try:
            if event is not None:
                await event.wait()
        except asyncio.CancelledError:
            return "late" if limit.end(task) else "cancelled"
        finally:
            limit.end(task)
        return "in time"

    quick = [asyncio.create_task(take(None)) for _ in range(3)]
    late = [asyncio.create_task(take(asyncio.Event())) for _ in range(3)]
    cancelled = asyncio.create_task(take(asyncio.Event()))
    await asyncio.sleep(0)
    cancelled.cancel()
    async with asyncio.timeout(SECONDS):
        assert await asyncio.gather(*quick, *late, cancelled) == ["in time"] * 3 + ["late"] * 3 + ["cancelled"]
        assert await asyncio.create_task(take(asyncio.Event())) == "late", "the timer is set anew"


@pytest.mark.parametrize("rounds", [1, 3])
async def test_one_task_may_be_limited_again_and_again(rounds: int) -> None:
    limit = TimeLimit(0.02)
    task = asyncio.current_task()
    assert task is not None
    for _ in range(rounds):
        limit.begin(task)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.Event().wait()
        assert limit.end(task)
        assert task.cancelling() == 0
