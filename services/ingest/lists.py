"""GET /events, /jobs and /jobs/failed: what there is, newest first, page by page."""

from collections.abc import Sequence

from litestar import get
from litestar.handlers import HTTPRouteHandler

from services.ingest.listing import EventPosition, FailedPosition, JobPosition, Lister
from services.ingest.schemas import EventsOut, JobsOut
from shared.channel import Channel
from shared.event import EventStatus, Outcome
from shared.job import REASONS, JobReason, JobStatus
from shared.web.auth import KeyRequest
from shared.web.description import takes_page
from shared.web.query import Filter, ListQuery, P, instant_filter, read_query, text_filter, word_filter

CHANNEL = word_filter("channel", "Only jobs on this channel.", Channel)
FAILED_REASON = word_filter(
    "reason",
    "Only jobs that failed for this reason.",
    [reason for reason, text in REASONS.items() if text.status is JobStatus.FAILED],
)
EVENT_TYPE = text_filter("event_type", "Only events of this type, and their jobs.")
EVENT_FILTERS = (
    EVENT_TYPE,
    word_filter("status", "Only events in this status.", EventStatus),
    word_filter("outcome", "Only events with this outcome, which follows from their jobs.", Outcome),
    text_filter("ref", "Only events with this reference of yours, say booking:bk_42."),
    text_filter("recipient", "Only events for the recipient with this id."),
    instant_filter("received_after", "Only events received at this instant or later."),
    instant_filter("received_before", "Only events received before this instant."),
)
JOB_FILTERS = (
    CHANNEL,
    word_filter("status", "Only jobs in this status.", JobStatus),
    word_filter("reason", "Only jobs that are in their status for this reason.", JobReason),
    EVENT_TYPE,
)
FAILED_FILTERS = (
    CHANNEL,
    FAILED_REASON,
    EVENT_TYPE,
    instant_filter("failed_after", "Only jobs that failed at this instant or later."),
    instant_filter("failed_before", "Only jobs that failed before this instant."),
)


def list_routes(lister: Lister) -> Sequence[HTTPRouteHandler]:
    """The routes of the lists."""

    @get("/events", operation_id="list_events", operation_class=takes_page(EVENT_FILTERS))
    async def list_events(request: KeyRequest) -> EventsOut:
        """Events with their jobs, the last received first. Of each job the last 20 attempts are told.

        While next_cursor is not null there is more. A page may be short all the same: with several filters, or by
        outcome, it ends once enough events were looked through.
        """
        return await lister.events(request.auth.scope_id, _query(request, "events", EventPosition, EVENT_FILTERS))

    @get("/jobs", operation_id="list_jobs", operation_class=takes_page(JOB_FILTERS))
    async def list_jobs(request: KeyRequest) -> JobsOut:
        """Jobs, the last created first, with their last 20 attempts.

        While next_cursor is not null there is more, though a page by event_type may be short.
        """
        return await lister.jobs(request.auth.scope_id, _query(request, "jobs", JobPosition, JOB_FILTERS))

    @get("/jobs/failed", operation_id="list_failed_jobs", operation_class=takes_page(FAILED_FILTERS))
    async def list_failed_jobs(request: KeyRequest) -> JobsOut:
        """Jobs that FAILED, the last to fail first, with their last 20 attempts.

        An event that could not be made into jobs at all is not here: it is found at /events with the status FAILED.
        """
        return await lister.failed_jobs(
            request.auth.scope_id, _query(request, "jobs/failed", FailedPosition, FAILED_FILTERS)
        )

    return list_events, list_jobs, list_failed_jobs


def _query(request: KeyRequest, name: str, position: type[P], filters: Sequence[Filter]) -> ListQuery[P]:
    return read_query(request.scope["query_string"], f"{name} {request.auth.scope_id}", position, filters)
