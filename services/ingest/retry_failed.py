"""Retrying what FAILED by filter: portion by portion, each a transaction of its own, and bounded."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from msgspec import Struct

from services.ingest.listing import MICROSECOND, job_filters, place_of_failed, sieve_jobs
from services.ingest.lists import CHANNEL, EVENT_TYPE, FAILED_REASON
from services.ingest.replayer import Replayer
from shared.channel import Channel
from shared.errors import FieldError
from shared.ids import ScopeId
from shared.logs import get_logger
from shared.store.job_lists import JobFilters, JobKey, find_failed
from shared.store.replay import Replayed, ReplayOptions, ReplayResult, read_clock
from shared.web.instant import Instant, write_instant

log = get_logger()

PORTION = 500
MOST_RETRIED = 1000
MOST_LOOKED_AT = 10_000
WORDS = (CHANNEL, FAILED_REASON, EVENT_TYPE)


class RetryFailedIn(Struct, forbid_unknown_fields=True):
    """Which failed jobs to retry, by the filters of `GET /jobs/failed`, and how (see `POST /jobs/{id}/retry`).

    ``dry_run``: only count them.
    """

    channel: str | None = None
    reason: str | None = None
    event_type: str | None = None
    failed_after: Instant | None = None
    failed_before: Instant | None = None
    readdress: bool | None = None
    extend: str | None = None
    dry_run: bool | None = None


class RetriedOut(Struct):
    """How many jobs were retried, or in a dry run would be.

    ``skipped`` counts those that cannot be, by ``content_gone``, ``expired`` (without `extend`), ``no_other_address``
    (with `readdress`) and ``not_failed`` (somebody else was first). ``more``: not all were looked at. Given back,
    ``failed_before`` selects none that fails (again) from now on.
    """

    dry_run: bool
    count: int
    skipped: dict[str, int]
    more: bool
    failed_before: str


def read_filters(wanted: RetryFailedIn | None) -> tuple[JobFilters, list[FieldError]]:
    """The filters that ``wanted`` names, and what is wrong with them."""
    if wanted is None:
        return JobFilters(), []
    texts = {one.name: getattr(wanted, one.name) for one in WORDS}
    values = {one.name: one.read(texts[one.name]) for one in WORDS if texts[one.name] is not None}
    errors = [
        FieldError(f"/{one.name}", "invalid", one.wanted(texts[one.name]))
        for one in WORDS
        if one.name in values and values[one.name] is None
    ]
    return job_filters({**values, "failed_after": wanted.failed_after, "failed_before": wanted.failed_before}), errors


@dataclass
class _Tally:
    """What one request has come upon so far; ``place``: the last job it looked at."""

    results: Counter[ReplayResult] = field(default_factory=Counter)
    channels: set[Channel] = field(default_factory=set)
    looked_at: int = 0
    place: tuple[datetime, int] | None = None
    more: bool = True

    def note(self, replayed: Sequence[Replayed]) -> None:
        """Count what came of some jobs."""
        self.results.update(one.result for one in replayed)
        self.channels |= {one.channel for one in replayed if one.result is ReplayResult.RETRIED}

    def look_behind(self, keys: Sequence[JobKey]) -> None:
        """Go on behind ``keys``, which were all that one portion found."""
        self.more = len(keys) == PORTION
        self.looked_at += len(keys)
        if keys:
            self.place = place_of_failed(keys[-1])


async def retry_failed(
    replayer: Replayer, scope_id: ScopeId, filters: JobFilters, options: ReplayOptions, *, dry_run: bool
) -> tuple[RetriedOut, set[Channel]]:
    """Retry what passes ``filters`` (with ``dry_run`` count it): what came of it, and the channels to wake.

    Each portion is committed on its own: when Postgres goes away half-way, what was retried stays so.
    """
    async with replayer.database.hot(replayer.within) as pg:
        now = await read_clock(pg)
    # Also when it was asked for a later bound: what fails from now on is not meant.
    filters = replace(filters, finished_until=min(filters.finished_until, now))
    tally, most = _Tally(), MOST_LOOKED_AT if dry_run else MOST_RETRIED
    while tally.more and tally.looked_at < MOST_LOOKED_AT and tally.results[ReplayResult.RETRIED] + PORTION <= most:
        async with replayer.database.hot(replayer.within) as pg:
            keys = await find_failed(pg, scope_id, filters, tally.place, PORTION)
            wanted = await sieve_jobs(pg, scope_id, filters)(keys)
        if dry_run:
            tally.results.update(await replayer.judge(scope_id, wanted, options))
        elif wanted:
            replayed, _ = await replayer.replay(scope_id, wanted, options)
            tally.note(replayed)
        tally.look_behind(keys)
    out = _tell(tally, filters, dry_run=dry_run)
    if not dry_run:
        log.info("jobs.retried", count=out.count, skipped=out.skipped, more=out.more, readdress=options.readdress)
    return out, tally.channels


def _tell(tally: _Tally, filters: JobFilters, *, dry_run: bool) -> RetriedOut:
    # Several may have failed at the same instant, and only some of them may have been looked at.
    goes_on = tally.more and tally.place is not None and not dry_run
    before = tally.place[0] + MICROSECOND if goes_on and tally.place is not None else filters.finished_until
    skipped = {str(result): n for result, n in tally.results.items() if result is not ReplayResult.RETRIED}
    return RetriedOut(dry_run, tally.results[ReplayResult.RETRIED], skipped, tally.more, write_instant(before))
