"""Whose turn it is: what a process knows of due jobs, and when it need not ask again."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from shared.channel import Channel
from shared.delivery.rounds import Rounds
from shared.delivery.wake import Doorbell
from shared.errors import StoreUnavailable
from shared.ids import ScopeId
from shared.job import Lane
from shared.store.claim import claim, claim_suspect
from shared.store.database import Database
from shared.store.discovery import HEADS_LIMIT
from tests.factories import claim_jobs, create_jobs, end_leases, new_job

LEASE = timedelta(seconds=30)
SLOTS = 100
FRESH = Lane.TRANSACTIONAL


@pytest.fixture
def bell() -> Doorbell:
    return Doorbell()


@pytest.fixture
def rounds() -> Rounds:
    return Rounds(Channel.EMAIL, SLOTS)


@pytest.fixture
async def nowhere() -> AsyncIterator[Database]:
    """A database that is not there."""
    database = Database("postgresql://nobody@127.0.0.1:1/nothing")
    yield database
    await database.close()


async def look_again(rounds: Rounds, bell: Doorbell, database: Database) -> None:
    """The look that is due in a second."""
    bell.ring(frozenset())
    await rounds.look(bell, database)


async def take(rounds: Rounds, database: Database, free: int = SLOTS) -> int:
    """How many jobs the next claim takes."""
    shares = rounds.shares(free)
    async with database.hot() as pg:
        claims = await claim(pg, Channel.EMAIL, shares, LEASE, "tester")
    rounds.note_taken(shares, [(one.scope_id, one.lane) for one in claims])
    return len(claims)


async def make_due(database: Database, ago: timedelta) -> None:
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET due_at = now() - $1::interval", ago)


async def test_a_lane_that_gave_less_than_its_share_is_left_alone_until_it_is_woken(
    rounds: Rounds, bell: Doorbell, database: Database
) -> None:
    await create_jobs(database, [new_job() for _ in range(3)])
    await rounds.look(bell, database)
    assert rounds
    assert await take(rounds, database) == 3
    assert not rounds
    assert not rounds.has_waiting
    await create_jobs(database, [new_job()])
    bell.ring(frozenset({ScopeId(1)}))
    await rounds.look(bell, database)
    assert rounds
    assert await take(rounds, database) == 1


async def test_a_lane_that_gave_all_of_its_share_is_asked_again_at_once(
    rounds: Rounds, bell: Doorbell, database: Database
) -> None:
    await create_jobs(database, [new_job() for _ in range(100)])
    await rounds.look(bell, database)
    assert await take(rounds, database) == 90, "a tenth is kept"
    assert rounds
    assert await take(rounds, database) == 10
    assert not rounds


async def test_a_paused_scope_is_remembered_and_gives_no_reason_to_ask_at_once(
    rounds: Rounds, bell: Doorbell, database: Database
) -> None:
    await create_jobs(database, [new_job()])
    await rounds.look(bell, database)
    assert rounds.shares(SLOTS, most_of=lambda _: 0) == []
    assert not rounds
    assert rounds.has_waiting
    await look_again(rounds, bell, database)
    assert rounds.shares(SLOTS, most_of=lambda _: 0) == []
    assert not rounds, "seen again, but nothing has changed"
    assert [(share.head.key, share.quota) for share in rounds.shares(SLOTS, most_of=lambda _: 1)] == [((1, FRESH), 1)]


async def test_an_old_job_in_another_process_hands_is_found_again_when_its_lease_ends(
    rounds: Rounds, bell: Doorbell, database: Database
) -> None:
    await create_jobs(database, [new_job()])
    await make_due(database, timedelta(hours=3))
    await rounds.look(bell, database)
    (share,) = rounds.shares(1)
    async with database.hot() as pg:
        assert len(await claim(pg, Channel.EMAIL, [share], LEASE, "mortal")) == 1
    assert await take(rounds, database) == 0
    assert not rounds
    await look_again(rounds, bell, database)
    assert rounds.next_look_seconds is not None
    await end_leases(database)
    await look_again(rounds, bell, database)
    assert await take(rounds, database) == 1


async def test_a_retried_job_that_was_woken_right_after_a_look_is_found_by_the_next(
    rounds: Rounds, bell: Doorbell, database: Database
) -> None:
    await rounds.look(bell, database)
    await create_jobs(database, [new_job(lane=Lane.TRANSACTIONAL_RETRY)])
    bell.ring(frozenset({ScopeId(1)}))
    await rounds.look(bell, database)
    assert await take(rounds, database) == 0
    assert rounds.next_look_seconds is not None
    await look_again(rounds, bell, database)
    assert await take(rounds, database) == 1


async def test_one_old_job_moves_no_other_lanes_low(rounds: Rounds, bell: Doorbell, database: Database) -> None:
    await create_jobs(database, [new_job(scope_id=1)])
    await make_due(database, timedelta(days=1))
    await create_jobs(database, [new_job(scope_id=2)])
    await rounds.look(bell, database)
    lows = {share.head.scope_id: share.head.low for share in rounds.shares(SLOTS)}
    old, young = lows[ScopeId(1)], lows[ScopeId(2)]
    assert old is not None
    assert young is not None
    assert young - old > timedelta(hours=23)


async def test_more_lanes_than_one_look_names_are_all_seen_in_turn(
    rounds: Rounds, bell: Doorbell, database: Database
) -> None:
    count = HEADS_LIMIT + 200
    await create_jobs(database, [new_job(scope_id=scope) for scope in range(1, count + 1)])
    # The first looks end at the limit, the next ones wherever they began anew.
    for _ in range(5):
        await look_again(rounds, bell, database)
    assert len(rounds.shares(2 * count)) == count


async def test_what_came_due_during_an_outage_is_found_after_it(
    rounds: Rounds, bell: Doorbell, database: Database, nowhere: Database
) -> None:
    await rounds.look(bell, database)
    await create_jobs(database, [new_job()])
    await make_due(database, timedelta(minutes=20))
    bell.ring(frozenset())
    with pytest.raises(StoreUnavailable):
        await rounds.look(bell, nowhere)
    await look_again(rounds, bell, database)
    assert await take(rounds, database) == 1


async def test_a_suspect_is_asked_for_by_itself_and_only_while_there_is_one(
    rounds: Rounds, bell: Doorbell, database: Database
) -> None:
    await create_jobs(database, [new_job()])
    await claim_jobs(database)
    await end_leases(database)
    await claim_jobs(database)
    await end_leases(database)
    await rounds.look(bell, database)
    assert await take(rounds, database) == 0
    assert rounds.has_waiting
    assert rounds.suspected(lambda _: 0) == []
    heads = rounds.suspected()
    async with database.hot() as pg:
        one = await claim_suspect(pg, Channel.EMAIL, heads, LEASE, "brave")
        assert one is not None
        rounds.note_suspect(heads, one)
        assert rounds.suspected() == heads, "there may be another behind it"
        rounds.note_suspect(heads, await claim_suspect(pg, Channel.EMAIL, heads, LEASE, "brave"))
    assert rounds.suspected() == []
    assert not rounds.has_waiting
