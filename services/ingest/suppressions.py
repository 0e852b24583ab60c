"""/suppressions: the addresses that a scope writes to no more, read and mended by the product."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

from litestar import delete, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Meta, Struct

from shared.address import address_problem
from shared.channel import Channel
from shared.errors import FieldError
from shared.store.database import Database
from shared.store.suppressions import (
    NewSuppression,
    Suppression,
    SuppressionReason,
    SuppressionSource,
    list_suppressions,
    remove_suppression,
    suppress,
)
from shared.web.auth import KeyRequest
from shared.web.body import read_json
from shared.web.description import takes_json, takes_page
from shared.web.instant import write_instant
from shared.web.problems import problem, validation_failed
from shared.web.query import Bigint, read_query, text_filter, word_filter
from shared.web.shape import read_shape

PATH = "/suppressions"
LONGEST_DETAIL = 500
FILTERS = (
    text_filter("address", "Only this address."),
    word_filter("reason", "Only addresses that are suppressed for this reason.", SuppressionReason),
)


class SuppressionIn(Struct, forbid_unknown_fields=True):
    """An address to write to no more; ``detail`` says why, for people."""

    address: str
    detail: Annotated[str, Meta(max_length=LONGEST_DETAIL)] | None = None


class SuppressionOut(Struct):
    """A suppressed address: why, and who said so. ``code`` and ``detail`` are the provider's words, or yours."""

    channel: str
    address: str
    reason: str
    source: str
    code: str | None
    detail: str | None
    created_at: str


class SuppressionsOut(Struct):
    """A page of suppressed addresses, the last suppressed first; ``next_cursor`` is null on the last one."""

    data: list[SuppressionOut]
    next_cursor: str | None


class SuppressionPosition(Struct, array_like=True, frozen=True):
    """Where a page ended."""

    suppression_id: Bigint


def suppression_routes(database: Database, within: timedelta) -> Sequence[HTTPRouteHandler]:
    """The routes of suppressions; ``within``: how long a request waits for Postgres."""

    @get(PATH, operation_id="list_suppressions", operation_class=takes_page(FILTERS))
    async def get_suppressions(request: KeyRequest) -> SuppressionsOut:
        """Addresses that get no mail from this half of the tenant, the last suppressed first."""
        scope_id = request.auth.scope_id
        query = read_query(request.scope["query_string"], f"suppressions {scope_id}", SuppressionPosition, FILTERS)
        async with database.hot(within) as pg:
            found = await list_suppressions(
                pg,
                scope_id,
                limit=query.limit + 1,
                before=None if query.after is None else query.after.suppression_id,
                address=query.filters.get("address"),
                reason=query.filters.get("reason"),
            )
        page = found[: query.limit]
        more = len(found) > query.limit
        cursor = query.write_cursor(SuppressionPosition(page[-1].suppression_id)) if more else None
        return SuppressionsOut([_show(one) for one in page], cursor)

    @post(PATH, operation_id="post_suppression", status_code=200, operation_class=takes_json(SuppressionIn))
    async def post_suppression(request: KeyRequest) -> SuppressionOut:
        """Write to an address no more, whoever wants mail sent to it. Said again, the newer words stand."""
        wanted = _read(await read_json(request))
        new = NewSuppression(wanted.address, SuppressionReason.MANUAL, SuppressionSource.API, detail=wanted.detail)
        async with database.hot(within) as pg:
            return _show(await suppress(pg, request.auth.scope_id, Channel.EMAIL, new))

    # An address may have a slash in it, and who deletes it may have forgotten to escape that.
    @delete(PATH + "/{address:path}", operation_id="delete_suppression")
    async def delete_suppression(request: KeyRequest, address: FromPath[str]) -> None:
        """Write to an address again. Be sure that it lives: mail to dead ones costs reputation."""
        # The framework gives the rest of a path with the slash before it.
        async with database.hot(within) as pg:
            removed = await remove_suppression(pg, request.auth.scope_id, Channel.EMAIL, address[1:].replace("\0", ""))
        if not removed:
            raise problem("not_found", "This address is not suppressed.")

    return get_suppressions, post_suppression, delete_suppression


def _read(tree: object) -> SuppressionIn:
    """``tree`` as a SuppressionIn; Problem 422 with everything that is wrong."""
    wanted, errors = read_shape(tree, SuppressionIn)
    address = tree.get("address") if isinstance(tree, dict) else None
    if isinstance(address, str) and (fault := address_problem(address.strip())) is not None:
        errors.append(FieldError("/address", "address", fault))
    if wanted is None or errors:
        raise validation_failed(errors)
    return wanted


def _show(one: Suppression) -> SuppressionOut:
    return SuppressionOut(
        one.channel, one.address, one.reason, one.source, one.code, one.detail, write_instant(one.created_at)
    )
