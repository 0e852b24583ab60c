"""The entry exists before the phone buzzes, whoever writes it, and push goes on where there is none to write."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from services.inapp.inbox import InboxWriter
from services.push.accounts import OneAccount
from services.push.fcm import FcmSender
from services.push.provider import PushProvider
from services.push.roads import Roads
from services.push.webpush import WebPushSender
from shared.channel import Channel
from shared.delivery.provider import Folded, Parcel
from shared.serviceaccount import parse_service_account
from shared.store.database import Database
from shared.verdict import NoVerdict
from tests.factories import claim_jobs, scoped_tenant, until
from tests.fakes.fcm import Wait
from tests.fakes.ledger import ledger_mistakes
from tests.fakes.pushing import CONTENT, Pushing, push_job, pushing_on, service
from tests.fakes.tenants import OneTenant


@pytest.fixture
async def pushing(database: Database) -> AsyncIterator[Pushing]:
    async with pushing_on(database) as ready:
        yield ready
        assert await ledger_mistakes(database) == []


async def entries(database: Database) -> list[tuple[str, int]]:
    async with database.hot() as pg:
        rows = await pg.fetch("SELECT recipient_id, seq FROM inbox ORDER BY recipient_id, seq")
    return [tuple(row) for row in rows]


async def statuses(pushing: Pushing, channel: Channel) -> list[str]:
    return [one.status for one in await pushing.outcomes(channel)]


async def test_the_entry_is_there_while_firebase_has_not_answered_yet(pushing: Pushing, database: Database) -> None:
    answering = asyncio.Event()
    await pushing.phone("a")
    pushing.peer.always("a", Wait(answering))
    await pushing.post_with_entry(content=replace(CONTENT, badge="unread"))
    async with service(pushing):
        await until(lambda: pushing.peer.posts_to("a") == 1)
        assert await entries(database) == [("bob", 1)]
        assert await statuses(pushing, Channel.INAPP) == ["SENT"]
        assert await statuses(pushing, Channel.PUSH) == ["PENDING"]
        answering.set()
        await pushing.until_settled()
    (message,) = pushing.peer.rung("a")
    assert message["apns"]["payload"]["aps"]["badge"] == 1
    async with database.hot() as pg:
        rows = await pg.fetch(
            "SELECT a.provider, a.verdict FROM attempts a JOIN outgoing o USING (job_id) WHERE o.channel = 'inapp'"
        )
    assert [tuple(row) for row in rows] == [("inbox", "delivered")]


async def test_both_services_at_once_write_each_entry_once(pushing: Pushing, database: Database) -> None:
    await pushing.phone("a")
    writer, stop = InboxWriter(database, OneTenant()), asyncio.Event()
    writing = asyncio.create_task(writer.run(stop))
    async with service(pushing):
        for _ in range(40):
            await pushing.post_with_entry()
            writer.bell.nudge()
        await pushing.until_settled(40)
    stop.set()
    await writing
    assert await entries(database) == [("bob", seq) for seq in range(1, 41)]
    assert await statuses(pushing, Channel.INAPP) == ["SENT"] * 40
    assert await statuses(pushing, Channel.PUSH) == ["SENT"] * 40
    assert pushing.peer.posts_to("a") == 40


async def test_an_entry_in_somebody_elses_claim_is_left_to_them(pushing: Pushing, database: Database) -> None:
    await pushing.phone("a")
    event_id = await pushing.post_with_entry()
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET due_at = now() + interval '1 hour' WHERE channel = 'push'")
    assert [one.event_id for one in await claim_jobs(database, channel=Channel.INAPP)] == [event_id]
    await pushing.make_due()
    async with service(pushing):
        await pushing.until_settled()
    assert await entries(database) == []
    assert await statuses(pushing, Channel.INAPP) == ["PENDING"]
    assert pushing.peer.posts_to("a") == 1


async def test_an_entry_that_is_not_due_yet_is_written_all_the_same(pushing: Pushing, database: Database) -> None:
    await pushing.phone("a")
    await pushing.post_with_entry()
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET due_at = now() + interval '1 hour' WHERE channel = 'inapp'")
    async with service(pushing):
        await pushing.until_settled()
    assert await entries(database) == [("bob", 1)]


@pytest.mark.parametrize("status", ["SKIPPED", "FAILED", "CANCELLED"])
async def test_push_goes_on_beside_an_entry_that_will_not_be(pushing: Pushing, status: str) -> None:
    reason = {"SKIPPED": "preference", "FAILED": "template_error", "CANCELLED": ""}[status]
    await pushing.phone("a")
    await pushing.post_with_entry()
    async with pushing.database.hot() as pg, pg.transaction():
        await pg.execute(
            "UPDATE outgoing SET status = $1, reason = $2, finished_at = now() WHERE channel = 'inapp'", status, reason
        )
        await pg.execute("UPDATE ledger SET status = $1, reason = $2 WHERE channel = 'inapp'", status, reason)
    async with service(pushing):
        assert [one.status for one in await pushing.until_settled()] == ["SENT"]
    assert await statuses(pushing, Channel.INAPP) == [status]


async def test_push_goes_on_when_the_entry_cannot_be_written(pushing: Pushing, database: Database) -> None:
    await pushing.phone("a")
    await pushing.post_with_entry()
    async with database.hot() as pg:
        await pg.execute("ALTER TABLE inbox ADD CONSTRAINT broken CHECK (seq < 0) NOT VALID")
    async with service(pushing):
        assert [one.status for one in await pushing.until_settled()] == ["SENT"]
    assert await statuses(pushing, Channel.INAPP) == ["PENDING"]


async def test_a_push_whose_targets_cannot_be_read_in_time_was_not_sent(pushing: Pushing) -> None:
    await pushing.phone("a")
    await pushing.post(push_job())
    (one,) = await claim_jobs(pushing.database, channel=Channel.PUSH)
    assert one.recipient_id is not None
    parcel = Parcel(
        one.job_id, one.event_id, one.scope_id, one.channel, one.recipient_id, CONTENT, scoped_tenant(), 1, False
    )
    within = timedelta(seconds=1)
    fcm = FcmSender(connections=1, within=within, base_url=pushing.peer.base_url)
    account = parse_service_account(pushing.peer.account.text.encode())
    webpush = WebPushSender(pushing.web.rules, connections=1, within=within)
    roads = Roads(OneAccount(account), fcm, pushing.vapid, webpush)
    provider = PushProvider(pushing.database, roads, attempt_timeout=within)
    async with pushing.database.hot() as blocker, blocker.transaction():
        await blocker.execute("LOCK TABLE push_targets IN ACCESS EXCLUSIVE MODE")
        verdict = await provider.send(parcel)
    assert isinstance(verdict, NoVerdict)
    assert (verdict.handed_over, verdict.code) == (False, "store_unavailable")
    assert isinstance(await provider.send(parcel), Folded)
    await provider.close()
