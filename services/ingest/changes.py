"""GET /changes: what became of jobs, events and push targets, for products that keep records of their own."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from litestar import get
from litestar.handlers import HTTPRouteHandler
from msgspec import Struct

from shared.change import TARGET_ENDS, ChangeKind, TargetEnd
from shared.errors import FieldError, Problem
from shared.event import EVENT_REASONS, EventReason
from shared.ids import EventId, format_event_id, format_job_id
from shared.job import REASONS, JobReason
from shared.store.change_feed import Change, EventWords, Extent, extent_of, read_after, words_of_events
from shared.store.database import Database
from shared.web.auth import KeyRequest
from shared.web.description import answers, takes_place
from shared.web.instant import write_instant
from shared.web.problems import problem, validation_failed
from shared.web.query import read_place

PATH = "/changes"


class GoneTargetOut(Struct):
    """A push target that is no more. ``id`` is that of its registration, and follows from its token."""

    id: str
    kind: str
    platform: str | None
    app: str | None


class ChangeOut(Struct, kw_only=True):
    """Something that came to its end, or to another one than before; ``kind`` is job, event, complaint or target.

    ``job``: the job is in ``status`` now, for ``reason``; PENDING: it is tried again. ``event``: it ended without
    jobs. ``complaint``: the recipient complained about the mail, whose job stays as it is. ``target``: the push target
    is no more, for ``reason``. ``event_type`` and ``ref`` are null once the event is purged.
    """

    seq: int
    at: str
    kind: str
    status: str | None
    reason: str | None
    meaning: str | None
    recipient_id: str | None
    event_id: str | None
    event_type: str | None
    ref: str | None
    job_id: str | None
    channel: str | None
    target: GoneTargetOut | None


class ChangesOut(Struct):
    """A page of changes, the oldest first.

    ``next_cursor``, null when this is all for now, is the ``after`` of the next page: the ``seq`` of the last change.
    ``last_seq`` is that of the newest change there is.
    """

    data: list[ChangeOut]
    next_cursor: str | None
    last_seq: int


def change_routes(database: Database, within: timedelta) -> Sequence[HTTPRouteHandler]:
    """The route of the feed; ``within``: how long a request waits for Postgres."""

    @get(PATH, operation_id="list_changes", operation_class=takes_place(), responses=answers("changes_gone"))
    async def list_changes(request: KeyRequest) -> ChangesOut:
        """Final results of jobs, bounces, complaints, retries and forgotten push targets, in one order without a gap.

        Keep the `seq` of the last change you have taken in, and ask for what came `after` it. A change may take a
        second to appear, and is kept as long as events are.
        """
        scope_id = request.auth.scope_id
        place = read_place(request.scope["query_string"])
        async with database.hot(within) as pg, pg.transaction(isolation="repeatable_read", readonly=True):
            extent = await extent_of(pg, scope_id)
            after = extent.gone_seq if place.after is None else place.after
            if (fault := _fault_of(after, extent)) is not None:
                raise fault
            changes = await read_after(pg, scope_id, after, place.limit)
            event_ids = {change.event_id for change in changes if change.event_id is not None}
            words = await words_of_events(pg, scope_id, list(event_ids))
        reached = changes[-1].seq if changes else after
        return ChangesOut(
            [_show(change, words) for change in changes],
            str(reached) if reached < extent.last_seq else None,
            extent.last_seq,
        )

    return (list_changes,)


def _fault_of(after: int, extent: Extent) -> Problem | None:
    if after < extent.gone_seq:
        told = f"the oldest change that is kept has the seq {extent.gone_seq + 1}"
        return problem(
            "changes_gone",
            f"Changes were purged since: {told}. Ask with after={extent.gone_seq}, and look up in the lists what the"
            " purged ones would have told.",
            [FieldError("/after", "too_old", told)],
        )
    if after > extent.last_seq:
        told = (
            f"is beyond the last change there is, {extent.last_seq}: it belongs to another key, or to another database"
        )
        return validation_failed([FieldError("/after", "invalid", told)])
    return None


def _show(change: Change, words: Mapping[EventId, EventWords]) -> ChangeOut:
    event_id, channel, target = change.event_id, change.channel, change.target
    told = None if event_id is None else words.get(event_id)
    recipient_id = target.recipient_id if target is not None else None if told is None else told.recipient_id
    return ChangeOut(
        seq=change.seq,
        at=write_instant(change.at),
        kind=change.kind,
        status=change.status or None,
        reason=change.reason or None,
        meaning=_meaning_of(change),
        recipient_id=recipient_id,
        event_id=None if event_id is None else format_event_id(event_id),
        event_type=None if told is None else told.event_type,
        ref=None if told is None else told.ref,
        job_id=None if event_id is None or channel is None else format_job_id(event_id, channel),
        channel=channel,
        target=None if target is None else GoneTargetOut(target.target_id, target.kind, target.platform, target.app),
    )


def _meaning_of(change: Change) -> str | None:
    if not change.reason:
        return None
    match change.kind:
        case ChangeKind.TARGET:
            return TARGET_ENDS[TargetEnd(change.reason)]
        case ChangeKind.EVENT:
            return EVENT_REASONS[EventReason(change.reason)].meaning
        case ChangeKind.JOB | ChangeKind.COMPLAINT:
            return REASONS[JobReason(change.reason)].meaning
