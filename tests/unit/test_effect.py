"""What each verdict does to a job, as a table."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from shared.channel import Channel
from shared.delivery.effect import effect_of, failed_unsent, released
from shared.delivery.provider import Ended, Folded
from shared.ids import JobId, ScopeId, new_event_id
from shared.job import REASONS, JobReason, JobStatus, Lane
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.claim import Claim
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict

TERMS = Terms(DEFAULT_POLICIES[Channel.EMAIL])
CLAIM = Claim(
    Channel.EMAIL,
    JobId(1),
    new_event_id(),
    ScopeId(1),
    Lane.TRANSACTIONAL,
    claim_seq=1,
    attempts=0,
    max_attempts=8,
    unanswered=2,
    unknowns=1,
    lost=0,
    expired=False,
    created_at=datetime.now(UTC),
    event_type="booking_confirmed",
    recipient_id="bob",
    terms=None,
    body=None,
)


@pytest.mark.parametrize(
    ("verdict", "status", "reason", "counted", "unanswered", "unknowns"),
    [
        (Delivered(), "SENT", "", True, 0, 1),
        (Rejected(), "FAILED", "rejected", True, 0, 1),
        (Rejected(reason=JobReason.PAYLOAD_TOO_LARGE), "FAILED", "payload_too_large", True, 0, 1),
        (Deferred(), "PENDING", "", True, 0, 1),
        (NoVerdict(handed_over=False), "PENDING", "", False, 3, 1),
        (NoVerdict(handed_over=True), "PENDING", "", False, 2, 2),
        (SenderBlocked("relay"), "PENDING", "", False, 3, 1),
    ],
)
def test_each_verdict_counts_what_it_should_and_nothing_else(
    verdict: Verdict, status: str, reason: str, counted: bool, unanswered: int, unknowns: int
) -> None:
    effect = effect_of(verdict, CLAIM, TERMS, random.Random(1))
    assert (effect.status, effect.reason, effect.counted) == (status, reason, counted)
    assert (effect.unanswered, effect.unknowns) == (unanswered, unknowns)
    assert (effect.delay is not None) == (status == "PENDING")


def test_the_last_deferral_exhausts_and_a_silence_never_does() -> None:
    last = replace(CLAIM, attempts=7)
    assert effect_of(Deferred(), last, TERMS, random.Random(1)).reason == "exhausted"
    for verdict in (NoVerdict(handed_over=False), SenderBlocked("relay")):
        assert effect_of(verdict, last, TERMS, random.Random(1)).status == "PENDING"


def test_a_service_that_is_down_and_says_until_when_is_waited_for() -> None:
    down = NoVerdict(handed_over=False, refused=True, retry_after=timedelta(minutes=10))
    effect = effect_of(down, replace(CLAIM, unanswered=0), TERMS, random.Random(1))
    assert (effect.delay, effect.counted, effect.unanswered) == (timedelta(minutes=10), False, 1)


def test_the_third_unanswered_handover_ends_a_mail() -> None:
    effect = effect_of(NoVerdict(handed_over=True), replace(CLAIM, unknowns=2), TERMS, random.Random(1))
    assert (effect.status, effect.reason) == ("FAILED", "unknown_outcome")


def test_hold_ends_a_mail_at_the_first_unanswered_handover() -> None:
    held = Terms(TERMS.retry, on_unknown="hold")
    effect = effect_of(NoVerdict(handed_over=True), replace(CLAIM, unknowns=0), held, random.Random(1))
    assert (effect.status, effect.reason) == ("FAILED", "unknown_outcome")


@pytest.mark.parametrize(
    ("verdict", "any_has_it", "status", "reason"),
    [
        (Delivered(), True, "SENT", ""),
        (Rejected(), True, "SENT", "partial"),
        (Rejected(), False, "FAILED", "rejected"),
        (Deferred(), True, "PENDING", ""),
        (Ended(JobStatus.SENT, JobReason.INBOX_ONLY), False, "SENT", "inbox_only"),
        (Ended(JobStatus.SKIPPED, JobReason.NO_TARGET), False, "SKIPPED", "no_target"),
    ],
)
def test_a_fold_ends_partial_when_some_target_has_it(
    verdict: Verdict | Ended, any_has_it: bool, status: str, reason: str
) -> None:
    effect = effect_of(Folded(verdict, (), any_has_it), CLAIM, TERMS, random.Random(1))
    assert (effect.status, effect.reason) == (status, reason)


def test_a_release_counts_nothing_and_waits_for_nothing() -> None:
    effect = released(CLAIM)
    assert (effect.status, effect.counted, effect.delay) == ("PENDING", False, None)
    assert (effect.unanswered, effect.unknowns) == (CLAIM.unanswered, CLAIM.unknowns)


def test_every_reason_belongs_to_one_status_and_says_what_to_do() -> None:
    assert set(REASONS) == set(JobReason) - {JobReason.NONE}
    for text in REASONS.values():
        assert text.meaning.endswith(".")
        assert text.next_step.endswith(".")
    effect = failed_unsent(CLAIM, JobReason.EXPIRED)
    assert REASONS[effect.reason].status is effect.status


def test_a_delay_after_a_deferral_is_what_the_provider_asked_for() -> None:
    effect = effect_of(Deferred(retry_after=timedelta(minutes=7)), CLAIM, TERMS, random.Random(1))
    assert effect.delay == timedelta(minutes=7)
