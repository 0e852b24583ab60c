"""Targets in the store: whose a token is, how many there may be, and when a dead one is forgotten."""

import asyncio
from datetime import UTC, datetime, timedelta

from shared.channel import Channel
from shared.ids import ScopeId
from shared.job import JobReason, JobStatus
from shared.store.database import Database
from shared.store.migrate import check
from shared.store.settle import AttemptRow, Report, settle_if_claimed
from shared.store.targets import MOST_TARGETS, Registered, list_targets, note_used, register, remove_target
from tests.factories import claim_jobs, create_jobs, new_job

SCOPE, OTHER = ScopeId(1), ScopeId(2)


async def put(database: Database, token: str, recipient: str = "bob", scope: ScopeId = SCOPE) -> Registered:
    async with database.begin() as connection:
        return await register(connection, scope, recipient, "fcm", token)


async def tokens(database: Database, recipient: str = "bob", scope: ScopeId = SCOPE) -> list[str]:
    async with database.begin() as connection:
        return [target.token for target in await list_targets(connection, scope, recipient)]


async def test_the_migrations_make_the_schema_that_the_code_sees(database_url: str) -> None:
    assert await check(database_url) == []


async def test_a_token_registered_twice_is_one_target_with_the_later_instant(database: Database) -> None:
    first, second = await put(database, "a"), await put(database, "a")
    assert second.target.target_id == first.target.target_id
    assert second.target.registered_at > first.target.registered_at
    assert await tokens(database) == ["a"]


async def test_a_token_belongs_to_whoever_registered_it_last(database: Database) -> None:
    await put(database, "a", "bob")
    await put(database, "a", "carol")
    assert (await tokens(database, "bob"), await tokens(database, "carol")) == ([], ["a"])


async def test_scopes_do_not_share_tokens(database: Database) -> None:
    await put(database, "a", "bob", SCOPE)
    await put(database, "a", "bob", OTHER)
    async with database.begin() as connection:
        assert await remove_target(connection, OTHER, "bob", "fcm", "a")
    assert (await tokens(database, scope=SCOPE), await tokens(database, scope=OTHER)) == (["a"], [])


async def test_a_token_is_removed_for_its_own_recipient_only(database: Database) -> None:
    await put(database, "a", "bob")
    async with database.begin() as connection:
        assert not await remove_target(connection, SCOPE, "carol", "fcm", "a")
        assert await remove_target(connection, SCOPE, "bob", "fcm", "a")
        assert not await remove_target(connection, SCOPE, "bob", "fcm", "a")


async def test_beyond_twenty_the_longest_unused_target_is_dropped(database: Database) -> None:
    made = [(await put(database, f"t{n}")).target for n in range(MOST_TARGETS)]
    async with database.hot() as pg:
        await note_used(pg, [made[0].target_id])
    newest = await put(database, "one more")
    assert newest.dropped == (made[1].target_id,)
    left = await tokens(database)
    assert len(left) == MOST_TARGETS
    assert {"t0", "one more"} < set(left)


async def test_targets_registered_at_once_are_never_more_than_twenty(database: Database) -> None:
    for n in range(MOST_TARGETS - 1):
        await put(database, f"t{n}")
    await asyncio.gather(*(put(database, f"new{n}") for n in range(6)))
    assert len(await tokens(database)) == MOST_TARGETS


async def test_tokens_that_change_hands_both_ways_at_once_end_with_one_owner_each(database: Database) -> None:
    for n in range(MOST_TARGETS):
        await put(database, f"bob{n}", "bob")
        await put(database, f"carol{n}", "carol")
    await asyncio.gather(
        *(put(database, f"carol{n}", "bob") for n in range(4)), *(put(database, f"bob{n}", "carol") for n in range(4))
    )
    bobs, carols = await tokens(database, "bob"), await tokens(database, "carol")
    assert len(bobs) <= MOST_TARGETS
    assert len(carols) <= MOST_TARGETS
    assert not set(bobs) & set(carols)


async def settle(database: Database, *dead: tuple[int, datetime], stale: bool = False) -> None:
    """One push job's report that found targets dead, at attempts that began at the instants given."""
    await create_jobs(database, [new_job(channel=Channel.PUSH)])
    (one,) = await claim_jobs(database, channel=Channel.PUSH)
    rows = tuple(
        AttemptRow(target_id, "fcm", "rejected", "rejected", "404", None, None, at, timedelta(), True, False)
        for target_id, at in dead
    )
    report = Report(
        one.job_id,
        one.claim_seq - stale,
        JobStatus.FAILED,
        JobReason.TARGETS_DEAD,
        None,
        True,
        0,
        0,
        False,
        rows,
    )
    async with database.hot() as pg:
        await settle_if_claimed(pg, Channel.PUSH, [report])


async def test_a_dead_target_is_forgotten_with_the_verdict(database: Database) -> None:
    dead, living = (await put(database, "dead")).target, (await put(database, "living")).target
    await settle(database, (dead.target_id, dead.registered_at + timedelta(seconds=1)))
    assert await tokens(database) == [living.token]


async def test_a_target_registered_again_since_the_attempt_began_is_kept(database: Database) -> None:
    target = (await put(database, "a")).target
    began = datetime.now(UTC)
    again = (await put(database, "a")).target
    await settle(database, (target.target_id, min(began, again.registered_at)))
    assert await tokens(database) == ["a"]


async def test_a_stale_report_forgets_nothing(database: Database) -> None:
    target = (await put(database, "a")).target
    await settle(database, (target.target_id, target.registered_at + timedelta(seconds=1)), stale=True)
    assert await tokens(database) == ["a"]
