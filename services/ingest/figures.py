"""The figures of a scope, from the rows of its ledger."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from services.ingest.schemas import AcceptToSentOut, DeliveryOut, MetricsOut
from shared.channel import BUILT_CHANNELS
from shared.event import EventStatus
from shared.job import JobReason, JobStatus
from shared.store.ledger import BUCKET_RATIO, EVENT_CHANNEL, SENT_AFTER, LedgerRow


def figures_of(rows: Sequence[LedgerRow]) -> MetricsOut:
    """What ``rows`` come to: a 0 for every status that did not occur, nothing for reasons that did not."""
    events = [row for row in rows if row.channel == EVENT_CHANNEL]
    jobs = {channel: [row for row in rows if row.channel == channel] for channel in BUILT_CHANNELS}
    return MetricsOut(
        events=_by_status(events, EventStatus),
        jobs={channel: _by_status(of_channel, JobStatus) for channel, of_channel in jobs.items()},
        events_failed=_by_reason(events, EventStatus.FAILED),
        delivery={channel: _delivery(of_channel) for channel, of_channel in jobs.items()},
    )


def _by_status(rows: Iterable[LedgerRow], statuses: Iterable[str]) -> dict[str, int]:
    counts = Counter[str]()
    for row in rows:
        counts[row.status] += row.n
    return {status: counts[status] for status in statuses}


def _by_reason(rows: Iterable[LedgerRow], status: str) -> dict[str, int]:
    return {row.reason: row.n for row in rows if row.status == status and row.n}


def _delivery(rows: Sequence[LedgerRow]) -> DeliveryOut:
    statuses = _by_status(rows, JobStatus)
    inbox_only = _by_reason(rows, JobStatus.SENT).get(JobReason.INBOX_ONLY, 0)
    rounds = sum(row.rounds for row in rows)
    tried = sum(row.tried for row in rows)
    return DeliveryOut(
        sent=statuses[JobStatus.SENT] - inbox_only,
        inbox_only=inbox_only,
        failed=_by_reason(rows, JobStatus.FAILED),
        skipped=_by_reason(rows, JobStatus.SKIPPED),
        cancelled=statuses[JobStatus.CANCELLED],
        pending=statuses[JobStatus.PENDING],
        attempts=sum(row.attempts for row in rows),
        rounds=rounds,
        jobs_tried=tried,
        retries=rounds - tried,
        retry_rate=round((rounds - tried) / rounds, 4) if rounds else 0.0,
        accept_to_sent=_accept_to_sent({int(row.reason): row.sent for row in rows if row.status == SENT_AFTER}),
    )


def _accept_to_sent(buckets: Mapping[int, int]) -> AcceptToSentOut | None:
    if not buckets:
        return None
    return AcceptToSentOut(p50_ms=percentile_ms(buckets, 0.50), p95_ms=percentile_ms(buckets, 0.95))


def percentile_ms(buckets: Mapping[int, int], share: float) -> float:
    """The milliseconds that ``share`` of what is in ``buckets`` (number to count) does not exceed, to within 5 %."""
    wanted = share * sum(buckets.values())
    seen = 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        if seen >= wanted:
            return float(f"{BUCKET_RATIO ** (bucket + 0.5):.4g}")
    raise ValueError("there is nothing in the buckets")
