"""Targets of other credentials than ours: none is lost, the sender is seen to be paused, and mending works."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from shared.store.database import Database
from shared.store.pauses import Pause, PauseKind, read_pauses
from shared.vapid import new_vapid_key
from tests.factories import WAIT_SECONDS
from tests.fakes.fcm import OTHER_PROJECTS_TOKEN
from tests.fakes.pushing import Outcome, Pushing, push_job, pushing_on, service
from tests.fakes.webpush import WRONG_KEY

MISMATCHED = [f"other-{number}" for number in range(19)]
QUICK = timedelta(seconds=1)
"""The first pause after a refusal: tests do not wait a minute."""


@pytest.fixture
async def pushing(database: Database) -> AsyncIterator[Pushing]:
    async with pushing_on(database) as ready:
        yield ready


async def senders(database: Database) -> list[Pause]:
    """What is paused by itself."""
    async with database.hot() as pg:
        return [pause for pause in await read_pauses(pg) if pause.key.kind is PauseKind.SENDER]


async def paused(database: Database) -> list[tuple[str, str]]:
    """What is paused by itself: the name of the circuit, and why."""
    return [(pause.key.name, pause.code) for pause in await senders(database)]


async def until_all_sent(pushing: Pushing) -> None:
    """Wait for every job to be SENT, however often it is held meanwhile."""
    async with asyncio.timeout(WAIT_SECONDS):
        while {one.status for one in await pushing.outcomes()} != {"SENT"}:
            await pushing.make_due()
            await asyncio.sleep(0.05)


async def test_nineteen_of_twenty_phones_of_another_project_all_get_it_once_when_that_is_mended(
    pushing: Pushing, database: Database
) -> None:
    await pushing.phone(*MISMATCHED, "ours")
    for token in MISMATCHED:
        pushing.peer.always(token, OTHER_PROJECTS_TOKEN)
    await pushing.post(push_job())
    async with service(pushing, unanswered_step=QUICK):
        assert [one.status for one in await pushing.until_settled()] == ["PENDING"]
        assert await pushing.tokens() == {*MISMATCHED, "ours"}
        ((circuit, code),) = await paused(database)
        assert (circuit.split(" ")[0], code) == ("fcm", "SENDER_ID_MISMATCH")
        for token in MISMATCHED:
            pushing.peer.always(token, None)
        await until_all_sent(pushing)
    assert await paused(database) == []
    assert {token: len(pushing.peer.rung(token)) for token in (*MISMATCHED, "ours")} == dict.fromkeys(
        (*MISMATCHED, "ours"), 1
    )
    assert (await pushing.outcomes())[0].attempts == 1


async def test_browsers_that_subscribed_with_another_key_all_get_it_once_when_the_key_is_back(
    pushing: Pushing, database: Database
) -> None:
    browsers = await pushing.browser(*MISMATCHED)
    (ours,) = await pushing.browser("ours")
    right, pushing.vapid.key = pushing.vapid.key, new_vapid_key()
    ours.sender = pushing.vapid.key.public
    await pushing.post(push_job())
    async with service(pushing, unanswered_step=QUICK):
        assert [one.status for one in await pushing.until_settled()] == ["PENDING"]
        assert await pushing.tokens() == {*MISMATCHED, "ours"}
        ((circuit, _code),) = await paused(database)
        assert circuit == f"webpush 127.0.0.1:{pushing.web.port}"
        pushing.vapid.key = right
        await until_all_sent(pushing)
    assert await paused(database) == []
    assert [len(browser.shown) for browser in (*browsers, ours)] == [1] * 20


async def test_nineteen_of_twenty_are_seen_at_once_though_others_get_through(
    pushing: Pushing, database: Database
) -> None:
    await pushing.phone(*MISMATCHED, "ours")
    for token in MISMATCHED:
        pushing.peer.always(token, OTHER_PROJECTS_TOKEN)
    for friend in ("ann", "ben", "cleo"):
        await pushing.phone(friend, recipient_id=friend)
    async with service(pushing, unanswered_step=QUICK):
        await pushing.post(*(push_job(recipient_id=friend) for friend in ("ann", "ben", "cleo")))
        await pushing.until_settled(3)
        await pushing.post(push_job())
        assert (await pushing.until_settled(4))[3].status == "PENDING"
        ((_circuit, code),) = await paused(database)
        assert code == "SENDER_ID_MISMATCH"
        for token in MISMATCHED:
            pushing.peer.always(token, None)
        # Those others only got through before: they do not vouch for what is refused since.
        await until_all_sent(pushing)
    assert await pushing.tokens() == {*MISMATCHED, "ours"}
    assert [len(pushing.peer.rung(token)) for token in (*MISMATCHED, "ours")] == [1] * 20


@pytest.mark.parametrize("kind", ["fcm", "webpush"])
async def test_a_stranger_among_friends_holds_up_nobody_and_is_kept(
    pushing: Pushing, database: Database, kind: str
) -> None:
    ring = pushing.phone if kind == "fcm" else pushing.browser
    for friend in ("ann", "ben"):
        await ring(friend, recipient_id=friend)
    await ring("stranger", recipient_id="carol")
    pushing.peer.always("stranger", OTHER_PROJECTS_TOKEN)
    pushing.web.always("stranger", WRONG_KEY)
    async with service(pushing, unanswered_step=timedelta(minutes=10)):
        await pushing.post(push_job(recipient_id="ann"), push_job(recipient_id="ben"))
        assert [one.status for one in await pushing.until_settled(2)] == ["SENT"] * 2
        await pushing.post(push_job(recipient_id="carol"))
        # It may be the first of many: what is right for a stranger would be wrong for them.
        assert (await pushing.until_settled(3))[2] == Outcome("PENDING", "", 0, 1, 0)
        (pause,) = await senders(database)
        assert not pause.holds_all, "it is seen, and holds up nobody but the stranger"
        await pushing.post(push_job(recipient_id="ann"), push_job(recipient_id="ben"))
        assert [one.status for one in (await pushing.until_settled(5))[3:]] == ["SENT"] * 2
        await pushing.make_due()
        await pushing.until_settled(1, rounds=2)
    assert (await pushing.outcomes())[2] == Outcome("FAILED", "rejected", 1, 0, 0)
    assert not any(pause.holds_all for pause in await senders(database))
    assert await pushing.tokens("carol") == {"stranger"}


async def test_a_stranger_among_a_recipients_own_targets_holds_up_not_even_them(
    pushing: Pushing, database: Database
) -> None:
    await pushing.browser("friend", "another", "stranger")
    pushing.web.always("stranger", WRONG_KEY)
    async with service(pushing):
        await pushing.post(push_job())
        assert [one.status for one in await pushing.until_settled()] == ["SENT"]
    assert await paused(database) == []
    assert await pushing.tokens() == {"friend", "another", "stranger"}
