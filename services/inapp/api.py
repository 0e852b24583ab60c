"""The inbox API: what an end user's own front end reads, under that user's token."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from litestar import Request, Router, get
from litestar.datastructures import State
from litestar.types import ControllerRouterHandler
from msgspec import Struct

from services.inapp.cors import open_to_browsers
from services.inapp.subscribers import Subscribers
from services.inapp.targets import target_routes
from shared.content import Link
from shared.endpoint import EndpointRules
from shared.ids import format_event_id
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.inbox import BEYOND_EVERY_SEQ, InboxEntry, list_entries
from shared.web.app import make_app
from shared.web.description import answers, takes_page
from shared.web.instant import write_instant
from shared.web.query import Bigint, read_query
from shared.web.tokens import Subscriber

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

API_PATH = "/api/v1"
BEARER = "A subscriber token: a JWT that speaks for one recipient."
DATABASE_TIMEOUT = timedelta(seconds=2)


class EntryOut(Struct):
    """One entry of an inbox. ``seq`` counts up; ``read_at`` is null until it was read."""

    seq: int
    event_id: str
    event_type: str
    title: str
    body: str
    link: Link | None
    icon: str | None
    data: dict[str, str]
    created_at: str
    read_at: str | None


class CountsOut(Struct):
    """How many entries there are, not only on this page."""

    unread: int
    total: int


class InboxOut(Struct):
    """A page of an inbox, newest entry first; ``next_cursor`` is null on the last one."""

    data: list[EntryOut]
    next_cursor: str | None
    counts: CountsOut


class _Position(Struct, array_like=True):
    """The entry a page ended with, by its ``seq``."""

    seq: Bigint


def build_api(
    database: Database,
    sealer: Sealer,
    within: timedelta = DATABASE_TIMEOUT,
    rules: EndpointRules | None = None,
    pages: Sequence[ControllerRouterHandler] = (),
) -> "ASGI3Application":
    """The ASGI application of the inbox; ``within``: how long a request waits for Postgres before its 503.

    ``rules`` say where a browser's endpoint may be (None: at the known push services), ``pages`` are served beside.
    """
    subscribers = Subscribers(database, sealer, within / 2)

    @get(
        "/inbox",
        operation_id="list_inbox",
        operation_class=takes_page(),
        responses=answers("token_missing", "token_invalid", "token_expired", "validation_failed"),
    )
    async def list_inbox(request: Request[None, Any, State]) -> InboxOut:
        """The entries of the token's recipient, newest first, with the counts of the whole inbox."""
        subscriber = await subscribers.require(request.headers.get("authorization"))
        query = read_query(request.scope["query_string"], _name_of_list(subscriber), _Position)
        async with database.hot(within / 2) as pg:
            page = await list_entries(
                pg,
                subscriber.scope_id,
                subscriber.recipient_id,
                before=query.after.seq if query.after else BEYOND_EVERY_SEQ,
                limit=query.limit + 1,
            )
        shown = page.entries[: query.limit]
        more = len(page.entries) > query.limit
        return InboxOut(
            [_show(entry) for entry in shown],
            query.write_cursor(_Position(shown[-1].seq)) if more else None,
            CountsOut(page.unread_count, page.total_count),
        )

    routes = [list_inbox, *target_routes(database, sealer, subscribers, rules or EndpointRules(), within / 2)]
    app = make_app([Router(API_PATH, route_handlers=routes), *pages], "Waybill inbox", API_PATH, BEARER)
    return open_to_browsers(app)


def _name_of_list(subscriber: Subscriber) -> str:
    return f"inbox {subscriber.scope_id} {subscriber.recipient_id}"


def _show(entry: InboxEntry) -> EntryOut:
    content = entry.content
    return EntryOut(
        seq=entry.seq,
        event_id=format_event_id(entry.event_id),
        event_type=entry.event_type,
        title=content.title,
        body=content.body,
        link=content.link,
        icon=content.icon,
        data=content.data,
        created_at=write_instant(entry.created_at),
        read_at=None if entry.read_at is None else write_instant(entry.read_at),
    )
