"""What a PENDING job waits for, said from what is known of it."""

from datetime import UTC, datetime, timedelta

import pytest

from services.ingest.waits import BLOCKED_CODES, VERDICTS, Waiting, waiting_of
from shared.channel import Channel
from shared.job import JobReason, JobStatus
from shared.store.jobs import StoredAttempt, StoredJob
from shared.store.pauses import PauseKind
from shared.store.waits import StandingPause
from shared.verdict import VERDICT_WORDS
from shared.waiting import WAITS, Wait

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
SOON, BEFORE = NOW + timedelta(minutes=1), NOW - timedelta(minutes=1)


def job(
    *attempts: StoredAttempt,
    channel: Channel = Channel.EMAIL,
    status: JobStatus = JobStatus.PENDING,
    due_at: datetime = SOON,
    in_hand: bool = False,
) -> StoredJob:
    return StoredJob(channel, status, JobReason.NONE, BEFORE, due_at, SOON, None, None, in_hand, attempts)


def attempt(
    verdict: str, code: str | None = None, error: str | None = None, claim_seq: int = 1, target_id: int = 0
) -> StoredAttempt:
    return StoredAttempt(
        claim_seq, target_id, claim_seq, "smtp", verdict, "", code, error, BEFORE, 5, True, False, False
    )


def pause(
    kind: PauseKind, channel: str = "", name: str = "", *, until: datetime | None = None, failures: int = 0
) -> StandingPause:
    return StandingPause(kind, channel, name, "wrong wording", "", BEFORE, until, failures)


def wait_of(one: StoredJob, *pauses: StandingPause) -> Wait | None:
    found = waiting_of(one, "reminder", pauses, NOW)
    return None if found is None else found.wait


@pytest.mark.parametrize("status", [status for status in JobStatus if status is not JobStatus.PENDING])
def test_a_finished_job_waits_for_nothing(status: JobStatus) -> None:
    assert wait_of(job(status=status), pause(PauseKind.TENANT)) is None


@pytest.mark.parametrize(
    ("standing", "holds"),
    [
        (pause(PauseKind.CHANNEL, "email"), True),
        (pause(PauseKind.CHANNEL, "push"), False),
        (pause(PauseKind.TENANT), True),
        (pause(PauseKind.TENANT, "push"), False),
        (pause(PauseKind.EVENT_TYPE, "", "reminder"), True),
        (pause(PauseKind.EVENT_TYPE, "email", "reminder"), True),
        (pause(PauseKind.EVENT_TYPE, "", "booked"), False),
    ],
)
def test_an_operators_pause_holds_what_it_names_and_gives_its_reason(standing: StandingPause, holds: bool) -> None:
    found = waiting_of(job(due_at=BEFORE), "reminder", [standing], NOW)
    expected = Waiting(Wait.PAUSED, "wrong wording", BEFORE, None) if holds else Waiting(Wait.WORKER, since=BEFORE)
    assert found == expected


def test_a_job_in_hand_is_past_every_pause() -> None:
    assert wait_of(job(in_hand=True), pause(PauseKind.TENANT)) is Wait.IN_HAND


@pytest.mark.parametrize(("blocked", "wait"), BLOCKED_CODES.items())
def test_a_sender_that_could_not_be_used_is_named_by_our_own_code(blocked: tuple[Channel, str], wait: Wait) -> None:
    channel, code = blocked
    found = waiting_of(job(attempt("sender_blocked", code, "why"), channel=channel), "reminder", [], NOW)
    assert found == Waiting(wait, "why", BEFORE, SOON)


def test_a_sender_that_is_refused_has_the_providers_words() -> None:
    found = waiting_of(job(attempt("sender_blocked", "535", "5.7.8 bad login")), "reminder", [], NOW)
    assert found == Waiting(Wait.REFUSED, "535 5.7.8 bad login", BEFORE, SOON)


def test_a_job_that_nobody_tried_is_likely_held_by_a_refusal_that_others_met() -> None:
    assert wait_of(job(), pause(PauseKind.RELAY, "email", "mx", until=SOON, failures=2)) is Wait.PERHAPS_REFUSED
    assert wait_of(job(), pause(PauseKind.SENDER, "push", "fcm", until=SOON, failures=2)) is Wait.PUT_OFF
    # What only some recipients met holds nobody else.
    assert wait_of(job(), pause(PauseKind.SENDER, "email", "mx", until=SOON, failures=0)) is Wait.PUT_OFF


@pytest.mark.parametrize(("verdict", "wait"), VERDICTS.items())
def test_a_job_that_was_tried_waits_for_what_its_last_round_said(verdict: str, wait: Wait) -> None:
    earlier = attempt("sender_blocked", "535", claim_seq=1)
    delivered = attempt("delivered", claim_seq=2, target_id=1)
    one = job(earlier, delivered, attempt(verdict, "451", "later", claim_seq=2, target_id=2))
    assert waiting_of(one, "reminder", [], NOW) == Waiting(wait, "451 later", None, SOON)
    assert wait_of(job(earlier, attempt(verdict, claim_seq=2), due_at=BEFORE)) is Wait.WORKER


def test_every_wait_has_a_meaning_and_a_next_step_and_can_be_told() -> None:
    assert WAITS.keys() == set(Wait)
    assert all(sentence.endswith(".") for text in WAITS.values() for sentence in (text.meaning, text.next_step))
    assert VERDICTS.keys() <= {*VERDICT_WORDS.values(), "lost"}
    assert set(BLOCKED_CODES.values()) | set(VERDICTS.values()) < set(Wait)
