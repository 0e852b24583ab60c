"""POST /events/{id}/cancel and /events/cancel: what is not in a worker's hands is not sent."""

from collections.abc import Sequence
from datetime import timedelta

from litestar import post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Struct

from services.ingest.schemas import Ref
from shared.event import derive_outcome
from shared.ids import ScopeId, format_event_id, format_job_id, parse_event_id
from shared.logs import get_logger
from shared.store.cancel import CancelledEvent, CancelResult, cancel_events
from shared.store.cancel_lists import count_open, find_open, was_cancelled
from shared.store.database import Database
from shared.web.auth import KeyRequest
from shared.web.body import read_json, read_json_if_any
from shared.web.description import takes_json
from shared.web.problems import problem, validation_failed
from shared.web.shape import read_shape

log = get_logger()

MOST_AT_ONCE = 1000
PORTION = 200
"""How many events one transaction cancels: when Postgres goes away half-way, the portions before stay cancelled."""


class CancelIn(Struct, forbid_unknown_fields=True):
    """Nothing is to be said beside the event's id."""


class CancelOfRefIn(Struct, forbid_unknown_fields=True):
    """Which events to cancel: all with this ``ref``, of one type where it is given. ``dry_run``: only count them."""

    ref: Ref
    event_type: str | None = None
    dry_run: bool | None = None


class CancelledJobOut(Struct):
    """What the cancel meant for one channel.

    ``result``: ``cancelled`` (it will not be sent), ``claimed`` (a worker has it in hand right now) or ``finished``
    (it was over; ``status`` says how). ``may_have_been_sent``: a copy has gone out, or nobody knows whether one has.
    """

    id: str
    channel: str
    result: str
    status: str
    reason: str | None
    may_have_been_sent: bool


class CancelledEventOut(Struct):
    """An event after a cancel. ``jobs`` is empty when it had not been routed yet."""

    id: str
    status: str
    outcome: str
    jobs: list[CancelledJobOut]


class CancelledOfRefOut(Struct):
    """What a cancel by ``ref`` did, or with ``dry_run`` would do.

    ``events`` had something left to do. Of their jobs ``cancelled_jobs`` were (or would be) cancelled, and
    ``claimed_jobs`` are in a worker's hands. ``more``: there are more such events; send the same request again.
    ``data`` tells of each event, and is empty in a dry run.
    """

    dry_run: bool
    events: int
    cancelled_jobs: int
    claimed_jobs: int
    more: bool
    data: list[CancelledEventOut]


def cancel_routes(database: Database, within: timedelta) -> Sequence[HTTPRouteHandler]:
    """The routes that cancel; ``within``: how long a request waits for Postgres."""

    @post(
        "/events/{event_id:str}/cancel",
        operation_id="cancel_event",
        status_code=200,
        operation_class=takes_json(CancelIn, "not_cancellable", required=False),
    )
    async def cancel_event(request: KeyRequest, event_id: FromPath[str]) -> CancelledEventOut:
        """Cancel an event: all of it that no worker has in hand. Cancelling it again gets the same answer.

        409 when nothing of it is cancelled, because it was too late for all of it.
        """
        _, errors = read_shape(await read_json_if_any(request), CancelIn)
        if errors:
            raise validation_failed(errors)
        found = parse_event_id(event_id)
        if found is None:
            raise problem("event_not_found", "An event's id is evt_ and 32 hexadecimal digits.")
        async with database.hot(within) as pg, pg.transaction():
            cancelled = await cancel_events(pg, request.auth.scope_id, [found])
        if not cancelled:
            raise problem("event_not_found", f"This key's tenant and mode have no event {event_id}.")
        _log(cancelled)
        if not cancelled[0].is_cancelled:
            raise problem("not_cancellable", _say_why(cancelled[0]))
        return _show(cancelled[0])

    @post(
        "/events/cancel",
        operation_id="cancel_events_of_ref",
        status_code=200,
        operation_class=takes_json(CancelOfRefIn, "not_cancellable"),
    )
    async def cancel_events_of_ref(request: KeyRequest) -> CancelledOfRefOut:
        """Cancel the events with one reference of yours, say booking:bk_42; at most 1,000 at once, the oldest first.

        409 when there are such events and nothing of any is cancelled, because it was too late for all of them.
        """
        wanted, errors = read_shape(await read_json(request), CancelOfRefIn)
        if wanted is None:
            raise validation_failed(errors)
        cancel = _count if wanted.dry_run else _cancel
        return await cancel(database, within, request.auth.scope_id, wanted)

    return cancel_event, cancel_events_of_ref


async def _count(database: Database, within: timedelta, scope_id: ScopeId, wanted: CancelOfRefIn) -> CancelledOfRefOut:
    async with database.hot(within) as pg, pg.transaction(isolation="repeatable_read", readonly=True):
        found = await find_open(pg, scope_id, wanted.ref, wanted.event_type, MOST_AT_ONCE + 1)
        counted = await count_open(pg, scope_id, found[:MOST_AT_ONCE])
    more = len(found) > MOST_AT_ONCE
    return CancelledOfRefOut(True, counted.event_count, counted.job_count, counted.claimed_count, more, [])


async def _cancel(database: Database, within: timedelta, scope_id: ScopeId, wanted: CancelOfRefIn) -> CancelledOfRefOut:
    async with database.hot(within) as pg:
        found = await find_open(pg, scope_id, wanted.ref, wanted.event_type, MOST_AT_ONCE + 1)
    cancelled: list[CancelledEvent] = []
    for start in range(0, min(len(found), MOST_AT_ONCE), PORTION):
        async with database.hot(within) as pg, pg.transaction():
            portion = await cancel_events(pg, scope_id, found[start : min(start + PORTION, MOST_AT_ONCE)])
        _log(portion)
        cancelled += portion
    if not any(event.is_cancelled for event in cancelled):
        async with database.hot(within) as pg:
            too_late = await was_cancelled(pg, scope_id, wanted.ref, wanted.event_type) is False
        if too_late:
            raise problem("not_cancellable", f"There are events with the ref {wanted.ref}, and it is too late for all.")
    results = [job.result for event in cancelled for job in event.jobs]
    return CancelledOfRefOut(
        False,
        len(cancelled),
        results.count(CancelResult.CANCELLED),
        results.count(CancelResult.CLAIMED),
        len(found) > MOST_AT_ONCE,
        [_show(event) for event in cancelled],
    )


def _log(cancelled: Sequence[CancelledEvent]) -> None:
    for event in cancelled:
        log.info(
            "event.cancelled" if event.fresh else "event.not_cancelled",
            event_id=format_event_id(event.event_id),
            status=event.status,
            jobs={job.channel.value: job.result.value for job in event.jobs},
        )


def _say_why(event: CancelledEvent) -> str:
    if not event.jobs:
        return f"The event is {event.status} and has no jobs."
    parts = [
        f"{job.channel} is being sent at this moment"
        if job.result is CancelResult.CLAIMED
        else f"{job.channel} is {job.status}"
        for job in event.jobs
    ]
    return f"It is too late: {', '.join(parts)}."


def _show(event: CancelledEvent) -> CancelledEventOut:
    return CancelledEventOut(
        format_event_id(event.event_id),
        event.status,
        derive_outcome(event.status, [job.status for job in event.jobs]),
        [
            CancelledJobOut(
                format_job_id(event.event_id, job.channel),
                job.channel,
                job.result,
                job.status,
                job.reason or None,
                job.may_have_been_sent,
            )
            for job in event.jobs
        ],
    )
