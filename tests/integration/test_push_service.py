"""The push service whole: entry, targets, Firebase, fold and settle."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from shared.channel import Channel
from shared.delivery.provider import Folded
from shared.ids import TenantId
from shared.job import JobReason
from shared.retry import RetryPolicy
from shared.serviceaccount import ServiceAccount
from shared.store.database import Database
from shared.verdict import Rejected, Verdict
from tests.factories import until
from tests.fakes.fcm import (
    BAD_TOKEN,
    EMPTY,
    HTML,
    OTHER_PROJECTS_TOKEN,
    TOO_BIG,
    UNAVAILABLE,
    UNREGISTERED,
    Act,
    Hang,
    Wait,
    too_many,
)
from tests.fakes.gates import ListeningGate
from tests.fakes.ledger import ledger_mistakes
from tests.fakes.pushing import CONTENT, Outcome, Pushing, push_job, pushing_on, service
from tests.fakes.rigs import ATTEMPT, FcmRig

SENT, PENDING = Outcome("SENT", "", 1, 0, 0), Outcome("PENDING", "", 1, 0, 0)


@pytest.fixture
async def pushing(database: Database) -> AsyncIterator[Pushing]:
    async with pushing_on(database) as ready:
        yield ready
        assert await ledger_mistakes(database) == []


async def test_ten_pushes_ring_each_living_target_once_each_and_forget_the_dead_one(pushing: Pushing) -> None:
    answering = asyncio.Event()
    await pushing.phone("quick", "dead", "slow")
    pushing.peer.always("dead", UNREGISTERED)
    pushing.peer.always("slow", Wait(answering))
    await pushing.post(*(push_job() for _ in range(10)))
    async with service(pushing):
        await until(lambda: pushing.peer.posts_to("slow") == 10)
        answering.set()
        assert await pushing.until_settled(10) == [SENT] * 10
    assert await pushing.tokens() == {"quick", "slow"}
    assert (pushing.peer.posts_to("quick"), pushing.peer.posts_to("slow")) == (10, 10)
    assert len({message["data"]["waybill_job"] for message in pushing.peer.rung("slow")}) == 10
    attempts = await pushing.attempts()
    assert {(one.token, one.verdict) for one in attempts} == {
        ("quick", "delivered"),
        ("dead", "rejected"),
        ("slow", "delivered"),
    }
    # Forgotten once, and not asked again: the next push knows two targets.
    await pushing.post(push_job())
    async with service(pushing):
        await pushing.until_settled(11)
    assert [one.token for one in (await pushing.attempts())[len(attempts) :]] == ["quick", "slow"]


@pytest.mark.parametrize(("ttl", "most"), [(None, 600), (timedelta(hours=4), 600), (timedelta(minutes=1), 60)])
async def test_firebase_keeps_a_message_no_longer_than_its_job_is_worth_sending(
    pushing: Pushing, ttl: timedelta | None, most: int
) -> None:
    await pushing.phone("phone")
    await pushing.post(push_job(content=replace(CONTENT, ttl=ttl), expires_in=timedelta(minutes=10)))
    async with service(pushing):
        assert [one.status for one in await pushing.until_settled()] == ["SENT"]
    (message,) = pushing.peer.rung("phone")
    kept = int(message["android"]["ttl"].removesuffix("s"))
    assert most - 100 < kept <= most
    assert int(message["webpush"]["headers"]["TTL"]) == kept
    assert int(message["apns"]["headers"]["apns-expiration"]) <= time.time() + most


async def test_an_unregistered_token_among_three_is_forgotten_and_the_others_got_it_once(pushing: Pushing) -> None:
    await pushing.phone("a", "b", "c")
    pushing.peer.always("b", UNREGISTERED)
    await pushing.post(push_job())
    async with service(pushing):
        assert await pushing.until_settled() == [SENT]
    assert await pushing.tokens() == {"a", "c"}
    assert [len(pushing.peer.rung(token)) for token in "abc"] == [1, 0, 1]


async def test_no_target_and_no_inbox_is_skipped_and_never_sent_again(pushing: Pushing) -> None:
    await pushing.post(push_job())
    async with service(pushing):
        assert await pushing.until_settled() == [Outcome("SKIPPED", "no_target", 0, 0, 0)]
    assert await pushing.attempts() == []
    assert pushing.peer.post_count == 0


async def test_a_payload_too_large_fails_once_and_costs_no_token(pushing: Pushing) -> None:
    await pushing.phone("a", "b", "c")
    await pushing.post(push_job(content=replace(CONTENT, data={"note": "x" * 5000})))
    async with service(pushing):
        assert await pushing.until_settled() == [Outcome("FAILED", "payload_too_large", 1, 0, 0)]
        assert await pushing.tokens() == {"a", "b", "c"}
        assert [one.verdict for one in await pushing.attempts()] == ["rejected"] * 3
        assert pushing.peer.post_count == 0
        await pushing.post(push_job())
        assert (await pushing.until_settled(2))[1] == SENT
    assert [len(pushing.peer.rung(token)) for token in "abc"] == [1, 1, 1]


async def test_what_only_firebase_knows_to_be_too_large_is_posted_once_and_costs_no_token(pushing: Pushing) -> None:
    await pushing.phone("a", "b", "c")
    for token in "abc":
        pushing.peer.always(token, TOO_BIG)
    await pushing.post(push_job(content=replace(CONTENT, data={"note": "x" * 3900})))
    async with service(pushing):
        assert await pushing.until_settled() == [Outcome("FAILED", "payload_too_large", 1, 0, 0)]
    assert await pushing.tokens() == {"a", "b", "c"}
    assert [pushing.peer.posts_to(token) for token in "abc"] == [1, 1, 1]


async def test_a_payload_too_large_says_nothing_of_push_services(pushing: Pushing) -> None:
    await pushing.phone("a")
    await pushing.browser("firefox")
    rig, gate = FcmRig(pushing, ATTEMPT), ListeningGate()
    content = replace(CONTENT, data={"note": "é" * 2500})
    outcome = await rig.provider.send(msgspec.structs.replace(rig.parcel(), content=content, gate=gate))
    await rig.provider.close()
    assert (gate.asked_about, gate.told_of) == ([], [])
    assert isinstance(outcome, Folded)
    assert [(one.provider, _refusal(one.verdict)) for one in outcome.results] == [
        ("fcm", (JobReason.PAYLOAD_TOO_LARGE, "too_large")),
        ("webpush", (JobReason.PAYLOAD_TOO_LARGE, "too_large")),
    ]


def _refusal(verdict: Verdict) -> tuple[JobReason, str | None] | None:
    return (verdict.reason, verdict.code) if isinstance(verdict, Rejected) else None


async def test_a_payload_too_large_is_no_inbox_only(pushing: Pushing) -> None:
    await pushing.phone("a")
    pushing.peer.always("a", TOO_BIG)
    await pushing.post_with_entry()
    async with service(pushing):
        assert await pushing.until_settled() == [Outcome("FAILED", "payload_too_large", 1, 0, 0)]


@pytest.mark.parametrize("retry_after", [None, "60"])
async def test_an_outage_is_one_post_an_attempt_row_with_two_workers(pushing: Pushing, retry_after: str | None) -> None:
    await pushing.phone("a")
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    pushing.peer.always("a", replace(UNAVAILABLE, headers=headers, taken=True))
    await pushing.post(push_job())
    async with service(pushing, name="one"), service(pushing, name="two"):
        for rounds in (1, 2, 3):
            assert (await pushing.until_settled(rounds=rounds))[0].attempts == 0
            assert pushing.peer.post_count == len(await pushing.attempts()) == rounds
            await pushing.make_due()
        pushing.peer.always("a", None)
        await pushing.make_due()
        assert (await pushing.until_settled(rounds=4)) == [SENT]
    # However often the phone got it, it shows one notification.
    assert len({message["android"]["notification"]["tag"] for message in pushing.peer.rung("a")}) == 1


@pytest.mark.parametrize("act", [HTML, EMPTY])
async def test_one_bad_answer_in_five_is_no_verdict_and_spoils_none_of_the_others(pushing: Pushing, act: Act) -> None:
    await pushing.phone(*"abcde")
    pushing.peer.once("c", act)
    await pushing.post(push_job())
    async with service(pushing):
        assert await pushing.until_settled() == [Outcome("PENDING", "", 0, 0, 1)]
        first = await pushing.attempts()
        assert [(one.token, one.verdict) for one in first if one.verdict != "delivered"] == [("c", "no_verdict")]
        await pushing.make_due()
        assert await pushing.until_settled(rounds=2) == [Outcome("SENT", "", 1, 0, 1)]
    assert [pushing.peer.posts_to(token) for token in "abcde"] == [1, 1, 2, 1, 1]
    assert [(one.token, one.possible_duplicate) for one in (await pushing.attempts())[5:]] == [("c", True)]


async def test_only_open_targets_are_rung_again_until_the_limit_leaves_it_partial(pushing: Pushing) -> None:
    await pushing.phone("a", "b", "c")
    pushing.peer.always("b", too_many("1"))
    pushing.peer.always("c", BAD_TOKEN)
    await pushing.post(push_job(policy=RetryPolicy(attempts=2, backoff=timedelta(seconds=60))))
    async with service(pushing):
        assert await pushing.until_settled() == [PENDING]
        await pushing.make_due()
        assert await pushing.until_settled(rounds=2) == [Outcome("SENT", "partial", 2, 0, 0)]
    assert [pushing.peer.posts_to(token) for token in "abc"] == [1, 2, 1]
    assert await pushing.tokens() == {"a", "b"}


async def test_a_token_of_another_project_is_kept_and_blocks_the_sender(pushing: Pushing) -> None:
    await pushing.phone("a")
    pushing.peer.always("a", OTHER_PROJECTS_TOKEN)
    await pushing.post(push_job())
    async with service(pushing):
        assert await pushing.until_settled() == [Outcome("PENDING", "", 0, 1, 0)]
    assert [one.verdict for one in await pushing.attempts()] == ["sender_blocked"]
    assert await pushing.tokens() == {"a"}


async def test_a_silent_firebase_is_given_up_before_the_lease_ends(pushing: Pushing) -> None:
    await pushing.phone("a", "b")
    pushing.peer.once("b", Hang(taken=True))
    await pushing.post(push_job())
    short: dict[str, Any] = {"lease": timedelta(seconds=4), "attempt_timeout": timedelta(seconds=1)}
    async with service(pushing, name="one", **short), service(pushing, name="two", **short):
        assert await pushing.until_settled() == [Outcome("PENDING", "", 0, 0, 1)]
        assert pushing.peer.post_count == 2
        await pushing.make_due()
        assert await pushing.until_settled(rounds=2) == [Outcome("SENT", "", 1, 0, 1)]
    assert [(one.token, one.claim_seq, one.verdict, one.reason) for one in await pushing.attempts()] == [
        ("a", 1, "delivered", ""),
        ("b", 1, "no_verdict", "after_handover"),
        ("b", 2, "delivered", ""),
    ]
    assert [pushing.peer.posts_to(token) for token in "ab"] == [1, 2]


async def test_a_stop_keeps_the_answers_that_came(pushing: Pushing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.delivery.worker.FINISH_SECONDS", 0.1)
    await pushing.phone("a", "b")
    pushing.peer.always("b", Hang())
    await pushing.post(push_job())
    async with service(pushing) as stop:
        await until(lambda: pushing.peer.posts_to("b") == 1 and pushing.peer.rung("a"))
        stop.set()
    assert await pushing.outcomes() == [Outcome("PENDING", "", 0, 0, 1)]
    assert [(one.token, one.verdict, one.reason) for one in await pushing.attempts()] == [
        ("a", "delivered", ""),
        ("b", "no_verdict", "after_handover"),
    ]


async def test_targets_that_all_died_leave_the_inbox_or_nothing(pushing: Pushing) -> None:
    await pushing.phone("a")
    pushing.peer.always("a", UNREGISTERED)
    await pushing.post(push_job())
    async with service(pushing):
        assert await pushing.until_settled() == [Outcome("FAILED", "targets_dead", 1, 0, 0)]
        await pushing.phone("a")
        await pushing.post_with_entry()
        assert (await pushing.until_settled(2))[1] == Outcome("SENT", "inbox_only", 1, 0, 0)
        await pushing.post_with_entry()
        assert (await pushing.until_settled(3))[2] == Outcome("SENT", "inbox_only", 0, 0, 0)


class NoAccount:
    """No tenant has a service account."""

    async def of(self, _tenant_id: TenantId) -> ServiceAccount | None:
        return None


async def test_a_tenant_without_account_blocks_its_own_sender_and_still_fills_the_inbox(pushing: Pushing) -> None:
    await pushing.phone("a")
    await pushing.post_with_entry()
    async with service(pushing, accounts=NoAccount()):
        assert await pushing.until_settled() == [Outcome("PENDING", "", 0, 1, 0)]
    assert [one.status for one in await pushing.outcomes(Channel.INAPP)] == ["SENT"]
    assert pushing.peer.post_count == 0


async def test_what_was_delivered_is_noted_as_used(pushing: Pushing, database: Database) -> None:
    await pushing.phone("a", "b")
    pushing.peer.always("b", UNAVAILABLE)
    await pushing.post(push_job())
    async with service(pushing):
        await pushing.until_settled()
    async with database.hot() as pg:
        rows = await pg.fetch("SELECT token, last_used_at IS NOT NULL FROM push_targets ORDER BY token")
    assert [tuple(row) for row in rows] == [("a", True), ("b", False)]
