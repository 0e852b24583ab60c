"""Many targets, one job: the table of what their answers come to, and whom a round rings."""

from datetime import UTC, datetime, timedelta

import pytest

from services.push.fold import fold
from services.push.targets import Earlier, choose
from shared.delivery.provider import Ended, TargetResult
from shared.job import JobReason, JobStatus
from shared.store.ringing import TargetState
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict

SENT, DEAD, REFUSED = Delivered("m"), Rejected(target_dead=True), Rejected()
TOO_LARGE = Rejected(JobReason.PAYLOAD_TOO_LARGE)
LATER, MUCH_LATER = Deferred(timedelta(seconds=5)), Deferred(timedelta(seconds=60))
SILENT, UNKNOWN, BLOCKED = NoVerdict(handed_over=False), NoVerdict(handed_over=True), SenderBlocked("sender")
DOWN = NoVerdict(handed_over=False, refused=True, retry_after=timedelta(seconds=90))
INBOX_ONLY = Ended(JobStatus.SENT, JobReason.INBOX_ONLY)
TARGETS_DEAD = Ended(JobStatus.FAILED, JobReason.TARGETS_DEAD)
NO_TARGET = Ended(JobStatus.SKIPPED, JobReason.NO_TARGET)
NOTHING_EARLIER = Earlier()


def results(*verdicts: Verdict) -> list[TargetResult]:
    return [
        TargetResult(number, "fcm", verdict, datetime.now(UTC), timedelta())
        for number, verdict in enumerate(verdicts, start=1)
    ]


@pytest.mark.parametrize(
    ("verdicts", "entry_exists", "outcome"),
    [
        ([SENT], True, SENT),
        ([SENT, DEAD], True, SENT),
        ([REFUSED, SENT], False, SENT),
        ([SENT, LATER], True, LATER),
        ([DEAD, LATER], True, LATER),
        ([TOO_LARGE, SILENT], True, SILENT),
        ([LATER, MUCH_LATER], True, MUCH_LATER),
        ([Deferred(), LATER], True, LATER),
        ([SILENT, MUCH_LATER], True, SILENT),
        ([SILENT, DOWN], True, DOWN),
        ([BLOCKED, SILENT], True, BLOCKED),
        ([BLOCKED, UNKNOWN, SILENT], True, UNKNOWN),
        ([SENT, BLOCKED], True, BLOCKED),
        ([DEAD], False, TARGETS_DEAD),
        ([DEAD, DEAD], True, INBOX_ONLY),
        ([], True, INBOX_ONLY),
        ([], False, NO_TARGET),
        ([REFUSED], True, REFUSED),
        ([DEAD, REFUSED], True, REFUSED),
        ([REFUSED, TOO_LARGE], True, TOO_LARGE),
        ([TOO_LARGE, TOO_LARGE, TOO_LARGE], True, TOO_LARGE),
    ],
)
def test_answers_of_several_targets_come_to_one(
    verdicts: list[Verdict], entry_exists: bool, outcome: Verdict | Ended
) -> None:
    folded = fold(results(*verdicts), NOTHING_EARLIER, entry_exists=entry_exists)
    assert folded.verdict == outcome
    assert [result.verdict for result in folded.results] == verdicts
    assert folded.delivered_any is (SENT in verdicts)


@pytest.mark.parametrize(
    ("verdicts", "earlier", "outcome"),
    [
        ([], Earlier(rung=True, delivered=True), Delivered()),
        ([DEAD], Earlier(rung=True, delivered=True), Delivered()),
        ([REFUSED], Earlier(rung=True, delivered=True), Delivered()),
        ([LATER], Earlier(rung=True, delivered=True), LATER),
        ([DEAD], Earlier(rung=True, refusal=TOO_LARGE), TOO_LARGE),
        ([], Earlier(rung=True), TARGETS_DEAD),
    ],
)
def test_what_earlier_rounds_reached_counts(
    verdicts: list[Verdict], earlier: Earlier, outcome: Verdict | Ended
) -> None:
    folded = fold(results(*verdicts), earlier, entry_exists=False)
    assert folded.verdict == outcome
    assert folded.delivered_any is earlier.delivered


def state(number: int, verdict: str = "", *, delivered: bool = False, gone: bool = False) -> TargetState:
    reason = "payload_too_large" if verdict == "rejected" else ""
    return TargetState(number, None if gone else f"token-{number}", None, delivered, verdict, reason)


@pytest.mark.parametrize(
    ("states", "rung"),
    [
        ([], []),
        ([state(1), state(2)], [1, 2]),
        ([state(1, "delivered", delivered=True), state(2, "deferred")], [2]),
        ([state(1, "no_verdict", delivered=True), state(2, "deferred")], [2]),
        ([state(1, "rejected"), state(2, "no_verdict"), state(3)], [2, 3]),
        ([state(1, "deferred", gone=True), state(2, "rejected"), state(3)], [3]),
        ([state(1, "rejected", gone=True), state(2, "deferred")], [2]),
        # Nothing was open, so the job had ended and is replayed.
        ([state(1, "rejected"), state(2, "delivered", delivered=True)], [1]),
    ],
)
def test_a_round_rings_whom_no_earlier_one_has_settled(states: list[TargetState], rung: list[int]) -> None:
    assert [target.target_id for target in choose(states).ring] == rung


def test_what_is_not_rung_again_is_remembered() -> None:
    choice = choose([state(1, "rejected"), state(2, "deferred"), state(3, "delivered", delivered=True, gone=True)])
    assert choice.earlier == Earlier(rung=True, delivered=True, refusal=TOO_LARGE)
    assert choose([state(1)]).earlier == Earlier()
