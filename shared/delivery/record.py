"""What is written down of an attempt: rows for the store, and the one log line."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from shared import metrics
from shared.channel import Channel
from shared.delivery.effect import Effect
from shared.delivery.provider import Folded, Parcel, TargetResult
from shared.ids import format_job_id
from shared.logs import log_canonical
from shared.store.claim import Claim
from shared.store.inbox_delivery import Entered
from shared.store.settle import AttemptRow, Report
from shared.verdict import VERDICT_WORDS, Delivered, NoVerdict, Rejected, Verdict

ERROR_LENGTH = 1024
CODE_LENGTH = 64
PROVIDER_ID_LENGTH = 255


def report_of(claim: Claim, effect: Effect, attempts: tuple[AttemptRow, ...] = ()) -> Report:
    """``effect`` on the job of ``claim``, with what was tried."""
    return Report(
        claim.job_id,
        claim.claim_seq,
        effect.status,
        effect.reason,
        effect.delay,
        effect.counted,
        effect.unanswered,
        effect.unknowns,
        effect.delivered_any,
        attempts,
    )


def rows_of(
    parcel: Parcel, provider: str, outcome: Verdict | Folded, started_at: datetime, took: timedelta
) -> tuple[AttemptRow, ...]:
    """One row per target, or the one row of a channel without targets."""
    if isinstance(outcome, Folded):
        return tuple(_row(parcel, result) for result in outcome.results)
    return (_row(parcel, TargetResult(0, provider, outcome, started_at, took)),)


def log_attempted(claim: Claim, parcel: Parcel, row: AttemptRow, effect: Effect) -> None:
    """The canonical line of one attempt."""
    log_canonical(
        "delivery.attempted",
        {
            "job_id": format_job_id(claim.event_id, claim.channel),
            "channel": claim.channel,
            "scope_id": claim.scope_id,
            "attempt": claim.claim_seq,
            "target_id": row.target_id,
            "provider": row.provider,
            "verdict": row.verdict,
            "code": row.code,
            "took_ms": int(row.took.total_seconds() * 1000),
            "possible_duplicate": parcel.possible_duplicate,
            "status": effect.status,
            "reason": effect.reason,
            "again_in_s": None if effect.delay is None else round(effect.delay.total_seconds(), 1),
        },
    )


def count_attempts(channel: Channel, reports: Sequence[Report]) -> None:
    """Have the process's metrics show what ``reports`` tell of."""
    verdicts = Counter(row.verdict for report in reports for row in report.attempts)
    for verdict, count in verdicts.items():
        metrics.attempts.labels(channel, verdict).inc(count)
    took = metrics.attempt_seconds.labels(channel)
    for report in reports:
        for row in report.attempts:
            took.observe(row.took.total_seconds())


def log_entered(entered: Sequence[Entered], took: timedelta) -> None:
    """The canonical line of each job that one in-app statement finished, which took ``took`` for all of them."""
    if entered:
        metrics.attempts.labels(Channel.INAPP, "delivered").inc(sum(one.status == "SENT" for one in entered))
        metrics.attempt_seconds.labels(Channel.INAPP).observe(took.total_seconds())
    for one in entered:
        log_canonical(
            "delivery.attempted",
            {
                "job_id": format_job_id(one.event_id, Channel.INAPP),
                "channel": Channel.INAPP,
                "scope_id": one.scope_id,
                "attempt": one.claim_seq,
                "provider": "inbox",
                "verdict": "delivered" if one.status == "SENT" else "none",
                "took_ms": int(took.total_seconds() * 1000),
                "status": one.status,
                "reason": one.reason,
            },
        )


def _row(parcel: Parcel, result: TargetResult) -> AttemptRow:
    verdict = result.verdict
    return AttemptRow(
        target_id=result.target_id,
        provider=result.provider,
        verdict=VERDICT_WORDS[type(verdict)],
        reason=verdict.reason if isinstance(verdict, Rejected) else _handover_word(verdict),
        code=_clean(verdict.code, CODE_LENGTH),
        error=_clean(verdict.error, ERROR_LENGTH),
        provider_id=_clean(verdict.provider_id, PROVIDER_ID_LENGTH) if isinstance(verdict, Delivered) else None,
        started_at=result.started_at,
        took=result.took,
        target_dead=isinstance(verdict, Rejected) and verdict.target_dead,
        possible_duplicate=parcel.possible_duplicate,
    )


def _handover_word(verdict: Verdict) -> str:
    if not isinstance(verdict, NoVerdict):
        return ""
    return "after_handover" if verdict.handed_over else "before_handover"


def _clean(text: str | None, length: int) -> str | None:
    """``text`` as Postgres takes it: no control characters, no lone surrogates, at most ``length`` characters."""
    if text is None:
        return None
    printable = "".join(char if char >= " " or char == "\n" else " " for char in text[: length * 2])
    return printable.encode("utf-8", "replace").decode()[:length]
