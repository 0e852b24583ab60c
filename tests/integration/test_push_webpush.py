"""Browsers beside phones: what they get, what each answer does to subscription and job, and who is forgotten."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.content import Link, WebStyle
from shared.metrics import REGISTRY
from shared.retry import RetryPolicy
from shared.store.database import Database
from shared.vapid import new_vapid_key
from tests.factories import until
from tests.fakes.fcm import UNREGISTERED, Act, Drop, Hang, Say, Wait
from tests.fakes.ledger import ledger_mistakes
from tests.fakes.pushing import CONTENT, Outcome, Pushing, push_job, pushing_on, service
from tests.fakes.webpush import GONE, NOT_FOUND, THROTTLED, WRONG_KEY

SENT = Outcome("SENT", "", 1, 0, 0)
UNANSWERED, UNKNOWN = Outcome("PENDING", "", 0, 1, 0), Outcome("PENDING", "", 0, 0, 1)


@pytest.fixture
async def pushing(database: Database) -> AsyncIterator[Pushing]:
    async with pushing_on(database) as ready:
        yield ready
        assert await ledger_mistakes(database) == []


def dead_targets() -> float:
    """How many targets this process has seen die."""
    return REGISTRY.get_sample_value("waybill_push_targets_removed_total", {"why": "dead"}) or 0.0


async def test_a_browser_reads_what_was_written_for_it(pushing: Pushing) -> None:
    (browser,) = await pushing.browser("firefox")
    content = replace(
        CONTENT,
        body="Größe, 日本語 & <b>no tags</b>",
        link=Link("https://campus.example/bookings/bk_42", "See it"),
        urgency="high",
        ttl=timedelta(minutes=30),
        badge="unread",
        web=WebStyle("https://campus.example/icon.png"),
    )
    await pushing.post(push_job(content=content))
    async with service(pushing):
        assert await pushing.until_settled() == [SENT]
    (shown,) = browser.shown
    job_id = shown.payload["data"].pop("waybill_job")
    tag = shown.payload.pop("tag")
    assert job_id == f"job_{tag}"
    assert shown.payload == {
        "title": content.title,
        "body": content.body,
        "lang": "en",
        "link": "https://campus.example/bookings/bk_42",
        "icon": "https://campus.example/icon.png",
        "badge": 0,
        "data": {"booking_id": "bk_42"},
    }
    headers = shown.headers
    assert (headers["TTL"], headers["Urgency"], headers["Topic"]) == ("1800", "high", tag)
    assert [(one.token, one.verdict) for one in await pushing.attempts()] == [("firefox", "delivered")]


async def test_a_message_is_kept_no_longer_than_its_job_is_worth_sending(pushing: Pushing) -> None:
    (browser,) = await pushing.browser("firefox")
    await pushing.post(push_job(expires_in=timedelta(minutes=10)))
    async with service(pushing):
        assert await pushing.until_settled() == [SENT]
    assert 0 < int(browser.shown[0].headers["TTL"]) <= 600
    assert "Urgency" not in browser.shown[0].headers


async def test_phones_and_browsers_are_rung_together_and_only_the_dead_are_forgotten(pushing: Pushing) -> None:
    await pushing.phone("living phone", "dead phone")
    living, gone, unknown = await pushing.browser("living", "gone", "unknown")
    pushing.peer.always("dead phone", UNREGISTERED)
    pushing.web.always("gone", GONE)
    pushing.web.always("unknown", NOT_FOUND)
    before = dead_targets()
    await pushing.post(push_job())
    async with service(pushing):
        assert await pushing.until_settled() == [SENT]
    assert dead_targets() - before == 3
    assert await pushing.tokens() == {"living phone", "living"}
    assert len(pushing.peer.rung("living phone")) == len(living.shown) == 1
    assert gone.post_count == unknown.post_count == 1


async def test_a_subscription_that_came_back_meanwhile_is_not_forgotten(pushing: Pushing) -> None:
    answering = asyncio.Event()
    (browser,) = await pushing.browser("firefox")
    pushing.web.once("firefox", Wait(answering), GONE)
    pushing.peer.once("phone", Wait(answering))
    await pushing.phone("phone")
    await pushing.post(push_job())
    async with service(pushing):
        await until(lambda: browser.post_count == 1)
        await pushing.browser("firefox")
        del pushing.web.browsers["firefox"]  # from here on the service answers 404
        answering.set()
        await pushing.until_settled()
    assert await pushing.tokens() == {"firefox", "phone"}


@pytest.mark.parametrize(
    "act", [Say(500), Say(503, headers={"Retry-After": "60"}), Say(502, b"<html>Bad Gateway</html>")]
)
async def test_a_service_in_trouble_keeps_the_subscription_and_costs_no_attempt(pushing: Pushing, act: Act) -> None:
    (browser,) = await pushing.browser("firefox")
    pushing.web.once("firefox", act)
    await pushing.post(push_job())
    async with service(pushing):
        assert await pushing.until_settled() == [UNANSWERED]
        assert browser.post_count == 1
        await pushing.make_due()
        assert await pushing.until_settled(rounds=2) == [SENT]
    assert await pushing.tokens() == {"firefox"}
    assert len(browser.shown) == 1


async def test_500_then_503_then_silence_delete_nothing_and_it_is_sent_afterwards(pushing: Pushing) -> None:
    (browser,) = await pushing.browser("firefox")
    pushing.web.once("firefox", Say(500), Say(503), Hang(taken=True))
    await pushing.post(push_job())
    async with service(pushing, attempt_timeout=timedelta(seconds=2)):
        for rounds, silences in ((1, 1), (2, 2)):
            assert (await pushing.until_settled(rounds=rounds))[0].unanswered == silences
            await pushing.make_due()
        assert (await pushing.until_settled(rounds=3))[0].unknowns == 1
        assert await pushing.tokens() == {"firefox"}
        await pushing.make_due()
        assert (await pushing.until_settled(rounds=4))[0].status == "SENT"
    assert browser.post_count == len(await pushing.attempts()) == 4
    # The second copy takes the place of the first.
    assert len({shown.headers["Topic"] for shown in browser.shown}) == 1


@pytest.mark.parametrize("act", [Drop(), Hang()])
async def test_a_line_that_breaks_after_the_message_left_may_have_delivered_it(pushing: Pushing, act: Act) -> None:
    await pushing.browser("firefox")
    pushing.web.once("firefox", act)
    await pushing.post(push_job())
    async with service(pushing, attempt_timeout=timedelta(seconds=2)):
        assert await pushing.until_settled() == [UNKNOWN]
    assert [one.reason for one in await pushing.attempts()] == ["after_handover"]


async def test_too_many_is_a_deferral_of_this_message(pushing: Pushing) -> None:
    await pushing.browser("edge")
    pushing.web.once("edge", THROTTLED)
    await pushing.post(push_job(policy=RetryPolicy(attempts=3, backoff=timedelta(seconds=1))))
    async with service(pushing):
        assert await pushing.until_settled() == [Outcome("PENDING", "", 1, 0, 0)]
        await pushing.make_due()
        assert await pushing.until_settled(rounds=2) == [Outcome("SENT", "", 2, 0, 0)]
    assert await pushing.tokens() == {"edge"}


async def test_a_key_that_was_changed_blocks_the_sender_and_loses_no_subscription(pushing: Pushing) -> None:
    (browser,) = await pushing.browser("firefox")
    right, pushing.vapid.key = pushing.vapid.key, new_vapid_key()
    await pushing.post(push_job())
    async with service(pushing, unanswered_step=timedelta(seconds=1)):
        assert (await pushing.until_settled())[0].status == "PENDING"
        assert [one.verdict for one in await pushing.attempts()] == ["sender_blocked"]
        assert await pushing.tokens() == {"firefox"}
        pushing.vapid.key = right
        await pushing.make_due()
        await until(lambda: browser.shown)
    assert (await pushing.outcomes())[0].status == "SENT"
    assert len(browser.shown) == 1


async def test_a_tenant_without_key_is_blocked_and_posts_nothing(pushing: Pushing) -> None:
    (browser,) = await pushing.browser("firefox")
    pushing.vapid.key = None
    await pushing.post(push_job())
    async with service(pushing):
        assert await pushing.until_settled() == [UNANSWERED]
    assert browser.post_count == 0
    assert [one.verdict for one in await pushing.attempts()] == ["sender_blocked"]


async def test_a_payload_too_large_is_not_even_posted_and_costs_no_subscription(pushing: Pushing) -> None:
    (browser,) = await pushing.browser("firefox")
    await pushing.post(push_job(content=replace(CONTENT, data={"note": "x" * 4000})))
    async with service(pushing):
        assert await pushing.until_settled() == [Outcome("FAILED", "payload_too_large", 1, 0, 0)]
    assert browser.post_count == 0
    assert await pushing.tokens() == {"firefox"}


async def test_a_payload_too_large_for_all_kinds_costs_no_target_and_a_normal_one_reaches_them(
    pushing: Pushing,
) -> None:
    await pushing.phone("phone")
    (browser,) = await pushing.browser("firefox")
    await pushing.post(push_job(content=replace(CONTENT, data={"note": "x" * 5000})))
    async with service(pushing):
        assert await pushing.until_settled() == [Outcome("FAILED", "payload_too_large", 1, 0, 0)]
        assert [one.verdict for one in await pushing.attempts()] == ["rejected", "rejected"]
        await pushing.post(push_job())
        assert (await pushing.until_settled(2))[1] == SENT
    assert len(browser.shown) == len(pushing.peer.rung("phone")) == 1


async def test_a_silent_push_service_does_not_hold_up_the_others(pushing: Pushing) -> None:
    await pushing.browser("silent", "living")
    pushing.web.always("silent", Hang())
    await pushing.post(push_job())
    async with service(pushing, attempt_timeout=timedelta(seconds=2)):
        assert await pushing.until_settled() == [UNKNOWN]
        pushing.web.always("silent", None)
        await pushing.make_due()
        assert (await pushing.until_settled(rounds=2))[0].status == "SENT"
    # Only the one that stayed open was rung again.
    assert [pushing.web.browsers[name].post_count for name in ("silent", "living")] == [2, 1]


async def test_no_redirect_is_followed(pushing: Pushing) -> None:
    await pushing.browser("firefox")
    pushing.web.once("firefox", Say(307, headers={"Location": f"{pushing.web.origin}/elsewhere"}))
    await pushing.post(push_job())
    async with service(pushing):
        assert await pushing.until_settled() == [UNANSWERED]
    assert pushing.web.refusals == []


async def test_browsers_that_all_died_leave_nothing_to_ring(pushing: Pushing) -> None:
    await pushing.browser("a", "b")
    pushing.web.always("a", GONE)
    pushing.web.always("b", GONE)
    await pushing.post(push_job())
    async with service(pushing):
        assert await pushing.until_settled() == [Outcome("FAILED", "targets_dead", 1, 0, 0)]
        await pushing.post(push_job())
        assert (await pushing.until_settled(2))[1] == Outcome("SKIPPED", "no_target", 0, 0, 0)
    assert await pushing.tokens() == set()


async def test_a_browser_that_refuses_our_key_does_not_keep_a_phone_from_ringing(pushing: Pushing) -> None:
    await pushing.phone("phone")
    await pushing.browser("firefox")
    pushing.web.always("firefox", WRONG_KEY)
    await pushing.post(push_job())
    async with service(pushing):
        assert (await pushing.until_settled())[0].status == "PENDING"
    assert len(pushing.peer.rung("phone")) == 1
    assert {(one.token, one.verdict) for one in await pushing.attempts()} == {
        ("phone", "delivered"),
        ("firefox", "sender_blocked"),
    }
