"""`waybill suppressions`: the addresses that a tenant writes to no more."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from services.cli.acts import record
from services.cli.exits import CommandFailed, UsageMistake, complain, show
from services.cli.store import half_of, mode_of, run_on_store
from shared.address import address_problem, normal_address
from shared.channel import Channel
from shared.ids import ScopeId
from shared.store.database import Database, HotConnection
from shared.store.suppressions import (
    NewSuppression,
    Suppression,
    SuppressionReason,
    SuppressionSource,
    list_suppressions,
    remove_suppression,
    suppress,
)
from shared.web.instant import write_instant, write_second

PORTION = 1000
LONGEST_DETAIL = 500
"""As the API takes it."""

T = TypeVar("T")


def list_all(tenant: str, *, test: bool, address: str | None, as_json: bool) -> None:
    """Print the suppressed addresses, the last suppressed first."""

    async def work(database: Database, scope_id: ScopeId) -> list[Suppression]:
        found: list[Suppression] = []
        async with database.hot() as pg:
            while page := await _page(pg, scope_id, found, address):
                found += page
        return found

    found = _run(tenant, test, work)
    show([_fields(one) for one in found], as_json, *([_line(one) for one in found] or ["No address is suppressed."]))


def add(tenant: str, addresses: Sequence[str], *, test: bool, detail: str | None, as_json: bool) -> None:
    """Suppress ``addresses``; UsageMistake, and nothing done, when one of them is none."""
    if detail is not None and len(detail) > LONGEST_DETAIL:
        raise UsageMistake(f"--detail is longer than {LONGEST_DETAIL} characters")
    for address in addresses:
        if (fault := address_problem(address.strip())) is not None:
            raise UsageMistake(f"{address} {fault}")

    async def work(database: Database, scope_id: ScopeId) -> list[Suppression]:
        async with database.hot() as pg:
            return [
                await suppress(
                    pg,
                    scope_id,
                    Channel.EMAIL,
                    NewSuppression(address, SuppressionReason.MANUAL, SuppressionSource.COMMAND, detail=detail),
                )
                for address in addresses
            ]

    added = _run(tenant, test, work)
    record("suppressed", tenant=tenant, mode=mode_of(test), ids=[one.suppression_id for one in added])
    show([_fields(one) for one in added], as_json, *(f"Suppressed: {one.address}" for one in added))


def remove(tenant: str, addresses: Sequence[str], *, test: bool, as_json: bool) -> None:
    """Write to ``addresses`` again; CommandFailed when none of them was suppressed."""

    async def work(database: Database, scope_id: ScopeId) -> list[str]:
        async with database.hot() as pg:
            return [one for one in addresses if await remove_suppression(pg, scope_id, Channel.EMAIL, one)]

    removed = _run(tenant, test, work)
    others = [address for address in addresses if address not in removed]
    if not removed:
        raise CommandFailed(f"{tenant} suppresses {', '.join(others)} not at all: nothing was changed")
    record("suppressions_removed", tenant=tenant, mode=mode_of(test), count=len(removed))
    complain(*(f"{address} was not suppressed" for address in others))
    names = [normal_address(address) for address in removed]
    show({"removed": names}, as_json, *(f"Written to again: {name}" for name in names))


async def _page(
    pg: HotConnection, scope_id: ScopeId, before: Sequence[Suppression], address: str | None
) -> Sequence[Suppression]:
    last = before[-1].suppression_id if before else None
    return await list_suppressions(pg, scope_id, limit=PORTION, before=last, address=address)


def _run(tenant: str, test: bool, work: Callable[[Database, ScopeId], Awaitable[T]]) -> T:
    async def in_half(database: Database) -> T:
        async with database.begin() as connection:
            scope = await half_of(connection, tenant, mode_of(test))
        return await work(database, scope.scope_id)

    return run_on_store(in_half)


def _fields(one: Suppression) -> dict[str, str | None]:
    return {
        "channel": one.channel,
        "address": one.address,
        "reason": one.reason,
        "source": one.source,
        "code": one.code,
        "detail": one.detail,
        "created_at": write_instant(one.created_at),
    }


def _line(one: Suppression) -> str:
    words = "" if one.detail is None else f": {one.detail}"
    return f"{one.address} ({one.reason}, {write_second(one.created_at)}){words}"
