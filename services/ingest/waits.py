"""What a PENDING job waits for: pure rules over the job, its last attempts and the pauses that stand."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.channel import Channel
from shared.job import JobStatus
from shared.store.jobs import StoredAttempt, StoredJob
from shared.store.pauses import PauseKind
from shared.store.waits import StandingPause
from shared.waiting import Wait

BLOCKED_CODES = {
    (Channel.PUSH, "no_sender"): Wait.NO_ACCOUNT,
    (Channel.PUSH, "no_vapid_key"): Wait.NO_VAPID_KEY,
    (Channel.PUSH, "no_contact"): Wait.NO_CONTACT,
    (Channel.PUSH, "service_account"): Wait.CREDENTIAL,
    (Channel.PUSH, "vapid_key"): Wait.CREDENTIAL,
    (Channel.EMAIL, "no_sender"): Wait.NO_EMAIL_SENDER,
    (Channel.EMAIL, "relay"): Wait.CREDENTIAL,
}
"""Our own codes of a sender that could not be used: nobody was asked."""
VERDICTS = {"deferred": Wait.DEFERRED, "no_verdict": Wait.SILENCE, "lost": Wait.LOST}


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a job waits for. ``detail`` is the operator's reason, or the provider's code and words."""

    wait: Wait
    detail: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def waiting_of(job: StoredJob, event_type: str, pauses: Sequence[StandingPause], now: datetime) -> Waiting | None:
    """What ``job`` waits for at ``now``; None when it is not PENDING. ``pauses`` are those of its scope."""
    if job.status is not JobStatus.PENDING:
        return None
    if job.in_hand:
        return Waiting(Wait.IN_HAND)
    here = [one for one in pauses if one.channel in ("", job.channel)]
    for pause in here:
        if _is_operators(pause) and (pause.kind is not PauseKind.EVENT_TYPE or pause.name == event_type):
            return Waiting(Wait.PAUSED, pause.reason or None, pause.since, pause.until)
    refusing = next((one for one in here if not _is_operators(one) and one.failures > 0), None)
    last = _last_round(job.attempts)
    if blocked := next((one for one in last if one.verdict == "sender_blocked"), None):
        return _blocked(job.channel, blocked, job.due_at)
    if refusing is not None:
        return Waiting(Wait.PERHAPS_REFUSED, _words(refusing.code, refusing.reason), refusing.since, refusing.until)
    if job.due_at <= now:
        return Waiting(Wait.WORKER, since=job.due_at)
    open_ones = [one for one in last if one.verdict in VERDICTS]
    if not open_ones:
        return Waiting(Wait.PUT_OFF, until=job.due_at)
    return Waiting(VERDICTS[open_ones[-1].verdict], _words(open_ones[-1].code, open_ones[-1].error), until=job.due_at)


def _last_round(attempts: Sequence[StoredAttempt]) -> list[StoredAttempt]:
    """The attempts of the last claim: one for each target."""
    return [one for one in attempts if one.claim_seq == attempts[-1].claim_seq]


def _blocked(channel: Channel, attempt: StoredAttempt, due_at: datetime) -> Waiting:
    wait = BLOCKED_CODES.get((channel, attempt.code or ""), Wait.REFUSED)
    detail = attempt.error if wait is not Wait.REFUSED else _words(attempt.code, attempt.error)
    return Waiting(wait, detail, attempt.started_at, due_at)


def _is_operators(pause: StandingPause) -> bool:
    return pause.kind in (PauseKind.CHANNEL, PauseKind.TENANT, PauseKind.EVENT_TYPE)


def _words(code: str | None, text: str | None) -> str | None:
    return " ".join(word for word in (code, text) if word) or None
