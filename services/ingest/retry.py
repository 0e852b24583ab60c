"""POST /jobs/{id}/retry and /jobs/failed/retry: what FAILED is sent again, with fresh limits."""

from collections.abc import Sequence
from datetime import UTC, datetime

from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Struct

from services.ingest.intake import FARTHEST_AHEAD
from services.ingest.replayer import Replayer
from services.ingest.retry_failed import RetriedOut, RetryFailedIn, read_filters, retry_failed
from services.ingest.schemas import ListedJobOut
from services.ingest.views import show_listed_job
from shared.broker.bus import Bus
from shared.errors import FieldError, Problem
from shared.ids import ScopeId, parse_job_id
from shared.job import JobStatus
from shared.logs import get_logger
from shared.store.job_lists import JobKey
from shared.store.jobs import ListedJob, read_jobs
from shared.store.replay import Replayed, ReplayOptions, ReplayResult, find_job
from shared.web.auth import KeyRequest
from shared.web.body import read_json, read_json_if_any
from shared.web.description import takes_json
from shared.web.instant import UNTIL_WANTED, read_until, write_instant
from shared.web.problems import problem, validation_failed
from shared.web.shape import read_shape

log = get_logger()


class RetryIn(Struct, forbid_unknown_fields=True):
    """How to retry. ``readdress``: to the last address that an event gave for this recipient.

    ``extend``: until when it is of use from now on, as a duration (``2h``) or an instant. It never shortens.
    """

    readdress: bool | None = None
    extend: str | None = None


def retry_routes(replayer: Replayer, bus: Bus) -> Sequence[HTTPRouteHandler]:
    """The routes that retry."""

    @post(
        "/jobs/{job_id:str}/retry",
        operation_id="retry_job",
        status_code=200,
        operation_class=takes_json(RetryIn, "job_not_failed", "job_expired", "content_gone", required=False),
    )
    async def retry_job(request: KeyRequest, job_id: FromPath[str]) -> ListedJobOut:
        """Send a job that FAILED once more, with fresh limits. Of several who ask at once, one is the first.

        With `readdress` a mail goes to the last address an event gave for its recipient; a push always goes to the
        targets of the moment. A job that has expired needs `extend`. One that failed for its template, or for want of
        an address, is rendered now, under the tenant's file of today.
        """
        wanted, errors = read_shape(await read_json_if_any(request), RetryIn)
        options, option_errors = _read_options(wanted)
        if wanted is None or errors or option_errors:
            raise validation_failed([*errors, *option_errors])
        key, job = await _retry(replayer, request.auth.scope_id, job_id, options)
        await bus.wake(key.channel, [request.auth.scope_id])
        return show_listed_job(job)

    @post(
        "/jobs/failed/retry",
        operation_id="retry_failed_jobs",
        status_code=200,
        operation_class=takes_json(RetryFailedIn),
    )
    async def retry_failed_jobs(request: KeyRequest) -> RetriedOut:
        """Send the jobs that FAILED and pass the filters once more: at most 1,000 at once, the last to fail first.

        With `dry_run` they are only counted. While `more` is true, send the request again with the `failed_before` of
        the answer: then it goes on where this one ended, and never selects a job that has failed again since.
        """
        wanted, errors = read_shape(await read_json(request), RetryFailedIn)
        options, option_errors = _read_options(wanted)
        filters, filter_errors = read_filters(wanted)
        if wanted is None or errors or option_errors or filter_errors:
            raise validation_failed([*errors, *option_errors, *filter_errors])
        scope_id, dry_run = request.auth.scope_id, bool(wanted.dry_run)
        retried, channels = await retry_failed(replayer, scope_id, filters, options, dry_run=dry_run)
        for channel in channels:
            await bus.wake(channel, [scope_id])
        return retried

    return retry_job, retry_failed_jobs


async def _retry(replayer: Replayer, scope_id: ScopeId, text: str, options: ReplayOptions) -> tuple[JobKey, ListedJob]:
    names = parse_job_id(text)
    if names is None:
        raise problem("job_not_found", "A job's id is job_ and 32 hexadecimal digits.")
    async with replayer.database.hot(replayer.within) as pg:
        key = await find_job(pg, scope_id, *names)
    replayed, refusals = ([], {}) if key is None else await replayer.replay(scope_id, [key], options)
    if key is None or not replayed:
        raise problem("job_not_found", f"This key's tenant and mode have no job {text}.")
    if replayed[0].result is not ReplayResult.RETRIED:
        raise _refusal(replayed[0], refusals.get(key.job_id))
    log.info("job.retried", job_id=text, channel=key.channel, reason=key.reason, readdress=options.readdress)
    async with replayer.database.hot(replayer.within) as pg:
        (job,) = await read_jobs(pg, scope_id, [key])
    return key, job


def _refusal(replayed: Replayed, missing: str | None) -> Problem:
    """Why the job was not retried; ``missing``: why it could not be given content now."""
    match replayed.result:
        case ReplayResult.CONTENT_GONE if missing is not None:
            return problem("content_gone", f"There is still nothing to send: {missing}.")
        case ReplayResult.CONTENT_GONE:
            return problem("content_gone", "The job's content was purged.")
        case ReplayResult.EXPIRED:
            expired = write_instant(replayed.expires_at)
            return problem("job_expired", f"The job expired at {expired}: give extend, such as 2h.")
        case ReplayResult.NO_OTHER_ADDRESS:
            detail = "asks for another address, and no event has given one for this recipient"
            return validation_failed([FieldError("/readdress", "no_other_address", detail)])
        case _:
            hint = ": it is to be sent, or was retried already" if replayed.status is JobStatus.PENDING else ""
            return problem("job_not_failed", f"The job is {replayed.status}{hint}.")


def _read_options(wanted: RetryIn | RetryFailedIn | None) -> tuple[ReplayOptions, list[FieldError]]:
    if wanted is None:
        return ReplayOptions(), []
    readdress, now = bool(wanted.readdress), datetime.now(UTC)
    if wanted.extend is None:
        return ReplayOptions(readdress=readdress), []
    until = read_until(wanted.extend, now)
    if until is None:
        return ReplayOptions(), [FieldError("/extend", "until", UNTIL_WANTED)]
    if until <= now:
        return ReplayOptions(), [FieldError("/extend", "expires_too_early", "has passed")]
    if until - now > FARTHEST_AHEAD:
        far = f"is more than {FARTHEST_AHEAD.days} days ahead"
        return ReplayOptions(), [FieldError("/extend", "too_far_ahead", far)]
    return ReplayOptions(until, readdress), []
