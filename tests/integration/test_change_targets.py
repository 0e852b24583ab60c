"""Push targets that are no more: each way they go is told to the product, with why, and never with their token."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from shared.change import TARGET_ENDS, ChangeKind, TargetEnd
from shared.channel import Channel
from shared.ids import ScopeId, new_event_id
from shared.job import JobReason, JobStatus
from shared.metrics import REGISTRY
from shared.store.change_feed import Change, read_after
from shared.store.claim import Claim
from shared.store.database import Database
from shared.store.settle import AttemptRow, Report, settle_if_claimed
from shared.store.targets import MOST_TARGETS, StoredTarget, public_id, register
from tests.factories import claim_jobs, create_jobs
from tests.fakes.changes import number_all, until_told
from tests.fakes.fcm import UNREGISTERED
from tests.fakes.ingest import Ingest, running_ingest
from tests.fakes.plans import Watched
from tests.fakes.pushing import push_job, pushing_on, service

BOBS = "/api/v1/recipients/bob/push-targets"
CAROLS = "/api/v1/recipients/carol/push-targets"
SCOPE = ScopeId(1)


@pytest.fixture
async def ingest(database: Database) -> AsyncIterator[Ingest]:
    async with running_ingest(database) as running:
        yield running


def removed(why: TargetEnd) -> float:
    """How many targets this process has counted as gone."""
    return REGISTRY.get_sample_value("waybill_push_targets_removed_total", {"why": why}) or 0.0


@asynccontextmanager
async def seen(why: TargetEnd, line: str) -> AsyncIterator[None]:
    """Within the block one target goes, counted and logged."""
    before = removed(why)
    with capture_logs() as lines:
        yield
    assert removed(why) == before + 1
    assert [one for one in lines if one["event"] == line]
    assert "token" not in str([one for one in lines if one["event"].startswith("push.target")])


async def put(ingest: Ingest, path: str, token: str, **more: str) -> dict[str, Any]:
    answer = await ingest.live.put(path, json={"token": token, **more})
    assert answer.status_code == 200, answer.text
    target: dict[str, Any] = answer.json()
    return target


async def test_one_that_moves_is_told_as_gone_from_whom_it_was(ingest: Ingest) -> None:
    target = await put(ingest, BOBS, "secret-token", platform="ios", app="campus-app")
    async with seen(TargetEnd.MOVED, "push.target_moved"):
        await put(ingest, CAROLS, "secret-token")
    (change,) = await until_told(ingest.live, 1)
    assert "secret-token" not in str(change)
    assert target["id"] == public_id("fcm", "secret-token")
    assert change.pop("at")
    assert change == {
        "seq": 1,
        "kind": "target",
        "status": None,
        "reason": "moved",
        "meaning": TARGET_ENDS[TargetEnd.MOVED],
        "recipient_id": "bob",
        "event_id": None,
        "event_type": None,
        "ref": None,
        "job_id": None,
        "channel": "push",
        "target": {"id": target["id"], "kind": "fcm", "platform": "ios", "app": "campus-app"},
    }


async def test_one_registered_again_by_its_owner_is_no_change(ingest: Ingest) -> None:
    await put(ingest, BOBS, "token-1")
    await put(ingest, BOBS, "token-1")
    assert await ingest.count("changes") == 0


@pytest.mark.parametrize("by", ["token", "id"])
async def test_one_that_is_removed_over_the_api_is_told(ingest: Ingest, by: str) -> None:
    target = await put(ingest, BOBS, "token-1")
    async with seen(TargetEnd.ASKED, "push.target_removed"):
        if by == "id":
            answer = await ingest.live.delete(f"{BOBS}/{target['id']}")
        else:
            answer = await ingest.live.request("DELETE", BOBS, json={"token": "token-1"})
        assert answer.status_code == 204
    (change,) = await until_told(ingest.live, 1)
    assert (change["reason"], change["recipient_id"], change["target"]["id"]) == ("asked", "bob", target["id"])


async def test_one_that_was_too_many_is_told(ingest: Ingest) -> None:
    first = await put(ingest, BOBS, "token-0")
    for number in range(1, MOST_TARGETS):
        await put(ingest, BOBS, f"token-{number}")
    async with seen(TargetEnd.TOO_MANY, "push.targets_dropped"):
        await put(ingest, BOBS, "one-more")
    (change,) = await until_told(ingest.live, 1)
    assert (change["reason"], change["target"]["id"]) == ("too_many", first["id"])


async def test_halves_of_a_tenant_do_not_hear_of_each_others_targets(ingest: Ingest) -> None:
    for client in (ingest.live, ingest.test):
        await client.put(BOBS, json={"token": "token-1"})
    await ingest.test.request("DELETE", BOBS, json={"token": "token-1"})
    assert len(await until_told(ingest.test, 1)) == 1
    assert (await ingest.live.get("/api/v1/changes")).json()["data"] == []


async def own(database: Database, token: str, recipient_id: str = "bob") -> StoredTarget:
    async with database.begin() as connection:
        return (await register(connection, SCOPE, recipient_id, "fcm", token)).target


async def owners(database: Database, token: str) -> set[str]:
    async with database.hot() as pg:
        rows = await pg.fetch("SELECT recipient_id FROM push_targets WHERE token = $1", token)
    return {row["recipient_id"] for row in rows}


async def feed(database: Database) -> list[Change]:
    await number_all(database)
    async with database.hot() as pg:
        return await read_after(pg, SCOPE, 0, 100)


async def test_a_dead_one_is_told_with_the_job_that_found_it_dead(database: Database) -> None:
    event_id = new_event_id()
    async with pushing_on(database) as pushing:
        await pushing.phone("living", "dead")
        pushing.peer.always("dead", UNREGISTERED)
        await pushing.post(push_job(event_id))
        async with service(pushing), seen(TargetEnd.DEAD, "push.target_dead"):
            await pushing.until_settled()
    changes = {change.kind: change for change in await feed(database)}
    assert len(changes) == 2
    dead = changes[ChangeKind.TARGET]
    assert (dead.reason, dead.event_id, changes[ChangeKind.JOB].status) == ("dead", event_id, "SENT")
    assert dead.target is not None
    assert (dead.target.target_id, dead.target.recipient_id) == (public_id("fcm", "dead"), "bob")


def dead_report(claim: Claim, *targets: StoredTarget) -> Report:
    """All that ``claim`` rang was dead."""
    rows = [
        AttemptRow(
            target.target_id,
            "fcm",
            "rejected",
            "rejected",
            "404",
            None,
            None,
            target.registered_at + timedelta(seconds=1),
            timedelta(),
            target_dead=True,
            possible_duplicate=False,
        )
        for target in targets
    ]
    status, reason = JobStatus.FAILED, JobReason.TARGETS_DEAD
    return Report(claim.job_id, claim.claim_seq, status, reason, None, True, 0, 0, False, tuple(rows))


async def test_one_that_several_jobs_find_dead_at_once_is_told_once(database: Database) -> None:
    dead = await own(database, "dead")
    made = await create_jobs(database, [push_job(), push_job()])
    reports = [dead_report(claim, dead) for claim in await claim_jobs(database, channel=Channel.PUSH)]
    async with database.hot() as pg:
        settled = {one.job_id: one.forgotten for one in await settle_if_claimed(pg, Channel.PUSH, reports)}
    assert settled == {made[0].job_id: 1, made[1].job_id: 0}
    told = [change for change in await feed(database) if change.kind == "target"]
    assert [change.event_id for change in told] == [made[0].event_id]


async def test_a_settle_goes_once_through_all_that_it_finds_dead(database: Database) -> None:
    jobs, targets = 20, 10
    await create_jobs(database, [push_job() for _ in range(jobs)])
    reports = [
        dead_report(
            claim, *[await own(database, f"{claim.job_id}-{number}", str(claim.job_id)) for number in range(targets)]
        )
        for claim in await claim_jobs(database, channel=Channel.PUSH)
    ]
    async with database.hot() as pg, pg.transaction():
        watched = Watched(pg)
        settled = await settle_if_claimed(watched, Channel.PUSH, reports)  # type: ignore[arg-type] # what it is asked, a connection is
    assert [one.forgotten for one in settled] == [targets] * jobs
    # Each job beside each attempt, and no attempt beside each of the others.
    assert watched.most_rows <= jobs * jobs * targets


async def test_of_two_who_register_a_new_token_at_once_the_first_is_told_that_it_moved(database: Database) -> None:
    for turn in range(10):
        people = ("bob", "carol")
        await asyncio.gather(*(own(database, f"token-{turn}", person) for person in people))
        changes = await feed(database)
        assert [change.reason for change in changes] == ["moved"] * (turn + 1)
        told = changes[-1].target
        assert told is not None
        assert await owners(database, f"token-{turn}") == set(people) - {told.recipient_id}
