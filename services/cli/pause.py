"""`waybill pause`, `resume` and `pauses`: what is not to be sent for now; jobs stay PENDING meanwhile."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from services.cli.acts import operator, record
from services.cli.exits import CommandFailed, UsageMistake, complain, show
from services.cli.store import run_on_store
from shared.channel import Channel
from shared.ids import ScopeId, TenantId
from shared.store.database import Database
from shared.store.paused_jobs import FIRST, Covered, bring_back, count_standing, find_claimed
from shared.store.pauses import EVERY_TENANT, OPERATORS, Pause, PauseKey, PauseKind, read_pauses
from shared.store.pauses import pause as store_pause
from shared.store.pauses import resume as store_resume
from shared.suggestion import did_you_mean
from shared.tenant import ScopedTenant
from shared.tenantfile.current import Tenants
from shared.web.instant import UNTIL_WANTED, read_until, write_instant, write_second

OBEYED_AFTER = timedelta(seconds=3)
"""Workers look once a second and obey within two: by then nobody claims what is paused any more."""
LOOK_AGAIN = timedelta(milliseconds=500)
WAIT_LIMIT = timedelta(minutes=10)
"""A claim ends with its lease at the latest, and leases are shorter than this."""
PORTION = 1000
LONGEST_REASON = 1024
FARTHEST_AHEAD = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Selectors:
    """What the command line named; an event type may be written ``tenant/type``."""

    channel: Channel | None
    tenant: str | None
    event_type: str | None

    @classmethod
    def read(cls, channel: Channel | None, tenant: str | None, event_type: str | None) -> "Selectors":
        """The selectors, with the tenant of an event type taken apart. UsageMistake when they name nothing."""
        if event_type is not None and "/" in event_type:
            of, _, event_type = event_type.partition("/")
            if tenant not in (None, of):
                raise UsageMistake(f"--tenant {tenant} and --event-type {of}/{event_type} name two tenants")
            tenant = of
        if event_type is not None and tenant is None:
            raise UsageMistake(f"--event-type {event_type} needs its tenant: say campus/{event_type}, or add --tenant")
        if channel is None and tenant is None:
            raise UsageMistake("name what is meant: --channel, --tenant or --event-type")
        return cls(channel, tenant, event_type)

    def __str__(self) -> str:
        """What they name, in words."""
        of_channel = "" if self.channel is None else f" on {self.channel}"
        if self.event_type is not None:
            return f"event type {self.tenant}/{self.event_type}{of_channel}"
        return f"channel {self.channel}" if self.tenant is None else f"tenant {self.tenant}{of_channel}"


def pause(selectors: Selectors, *, until: str | None, reason: str, wait: bool, as_json: bool) -> None:
    """Have what the selectors name paused; with ``wait`` return only when nothing of it is in flight any more."""
    if len(reason) > LONGEST_REASON:
        raise UsageMistake(f"--reason is longer than {LONGEST_REASON} characters")
    ends_at = None if until is None else _ahead(until)
    fields = {**_named(selectors), "until": None if ends_at is None else write_instant(ends_at), "reason": reason}

    async def work(database: Database) -> None:
        halves = await _halves(database)
        key = _key(selectors, halves, known_types=True)
        async with database.hot() as pg:
            await store_pause(pg, key, reason, ends_at, operator())
        record("paused", **fields)
        if wait:
            try:
                await until_over(database, _covered(key, halves))
            except asyncio.CancelledError:
                complain(f"not waited to the end: {selectors} is paused all the same")
                raise

    run_on_store(work)
    lasts = "until somebody resumes it" if ends_at is None else f"until {write_second(ends_at)}"
    end = " Nothing of it is in flight any more." if wait else ""
    show(fields, as_json, f"Paused: {selectors}, {lasts}. Its jobs stay PENDING.{end}")


def resume(selectors: Selectors, *, as_json: bool) -> None:
    """End the pause of what the selectors name; CommandFailed when there is none."""

    async def work(database: Database) -> int:
        halves = await _halves(database)
        key = _key(selectors, halves, known_types=False)
        async with database.hot() as pg:
            if not await store_resume(pg, key):
                raise CommandFailed(f"{selectors} is not paused: `waybill pauses` lists what is")
        record("resumed", **_named(selectors))
        if key.kind is not PauseKind.EVENT_TYPE:
            return 0
        # Until every worker knows, they set aside again whatever comes due.
        await asyncio.sleep(OBEYED_AFTER.total_seconds())
        return await _bring_all_back(database, _covered(key, halves))

    count = run_on_store(work)
    show({**_named(selectors), "brought_back": count}, as_json, f"Resumed: {selectors}.")


def list_pauses(as_json: bool) -> None:
    """Print every pause that stands, an operator's and a provider's."""

    async def work(database: Database) -> tuple[list[Pause], Mapping[TenantId, str]]:
        tenants = {half.tenant_id: half.tenant.key for half in (await _halves(database)).values()}
        async with database.hot() as pg:
            return await read_pauses(pg), tenants

    found, tenants = run_on_store(work)
    lines = [_line(one, tenants) for one in found] or ["Nothing is paused."]
    show([_fields(one, tenants) for one in found], as_json, *lines)


async def until_over(
    database: Database, covered: Covered, obeyed_after: timedelta = OBEYED_AFTER, limit: timedelta = WAIT_LIMIT
) -> None:
    """Return once all that was being sent of ``covered`` when the pause came to be obeyed has ended.

    CommandFailed when that takes longer than ``limit``.
    """
    await asyncio.sleep(obeyed_after.total_seconds())
    async with database.hot() as pg:
        # These and no later ones: whoever claims from now on knows of the pause, and sets aside what he claimed.
        claims = await find_claimed(pg, covered)
    said, left = 0, len(claims)
    deadline = asyncio.get_running_loop().time() + limit.total_seconds()
    while left:
        if left != said:
            complain(f"waiting for {left} in flight")
            said = left
        if asyncio.get_running_loop().time() >= deadline:
            raise CommandFailed(f"it is paused, but {left} are still in flight after {limit.total_seconds():g} s")
        await asyncio.sleep(LOOK_AGAIN.total_seconds())
        async with database.hot() as pg:
            left = await count_standing(pg, claims)


async def _bring_all_back(database: Database, covered: Covered) -> int:
    total, behind = 0, FIRST
    while True:
        async with database.hot() as pg:
            brought = await bring_back(pg, covered, PORTION, behind)
        total, behind = total + brought.count, brought.last
        if brought.count < PORTION:
            return total


async def _halves(database: Database) -> Mapping[ScopeId, ScopedTenant]:
    tenants = Tenants(database)
    await tenants.load()
    return tenants.all()


def _key(selectors: Selectors, halves: Mapping[ScopeId, ScopedTenant], *, known_types: bool) -> PauseKey:
    """What the selectors name. With ``known_types`` an event type must be in its tenant's file."""
    channel = selectors.channel or ""
    if selectors.tenant is None:
        return PauseKey(PauseKind.CHANNEL, channel)
    tenants = {half.tenant.key: half for half in halves.values()}
    half = tenants.get(selectors.tenant)
    if half is None:
        raise CommandFailed(f"there is no tenant {selectors.tenant}{did_you_mean(selectors.tenant, tenants)}")
    if selectors.event_type is None:
        return PauseKey(PauseKind.TENANT, channel, half.tenant_id)
    types = half.tenant.event_types
    if known_types and selectors.event_type not in types:
        hint = did_you_mean(selectors.event_type, types)
        raise CommandFailed(f"{selectors.tenant} has no event type {selectors.event_type}{hint}")
    return PauseKey(PauseKind.EVENT_TYPE, channel, half.tenant_id, selectors.event_type)


def _covered(key: PauseKey, halves: Mapping[ScopeId, ScopedTenant]) -> Covered:
    channels: Sequence[Channel] = [Channel(key.channel)] if key.channel else list(Channel)
    if key.tenant_id == EVERY_TENANT:
        return Covered(channels)
    # Both halves: a pause is the tenant's.
    scope_ids = [scope_id for scope_id, half in halves.items() if half.tenant_id == key.tenant_id]
    return Covered(channels, scope_ids, key.name or None)


def _ahead(text: str) -> datetime:
    now = datetime.now(UTC)
    until = read_until(text, now)
    if until is None:
        raise UsageMistake(f"--until {UNTIL_WANTED}")
    if until <= now:
        raise UsageMistake(f"--until {text} has passed")
    if until - now > FARTHEST_AHEAD:
        raise UsageMistake(f"--until {text} is more than {FARTHEST_AHEAD.days} days ahead: leave it out")
    return until


def _named(selectors: Selectors) -> dict[str, object]:
    return {"channel": selectors.channel, "tenant": selectors.tenant, "event_type": selectors.event_type}


def _fields(one: Pause, tenants: Mapping[TenantId, str]) -> dict[str, object]:
    key = one.key
    by_operator = key.kind in OPERATORS
    return {
        "kind": key.kind,
        "channel": key.channel or None,
        "tenant": tenants.get(key.tenant_id, str(key.tenant_id)) if key.tenant_id else None,
        "name": key.name or None,
        "reason": one.reason or None,
        "code": None if by_operator else one.code or None,
        "by": one.code or None if by_operator else None,
        "since": write_instant(one.paused_at),
        "until": None if one.until is None else write_instant(one.until),
        "being_probed": one.over,
        "refusals": one.failures if one.holds_all else 1,
        "holds_all": one.holds_all,
    }


def _line(one: Pause, tenants: Mapping[TenantId, str]) -> str:
    fields = _fields(one, tenants)
    what = " ".join(str(fields[name]) for name in ("kind", "tenant", "name", "channel") if fields[name] is not None)
    until = "until it is resumed" if one.until is None else f"until {write_second(one.until)}"
    why = "".join(f", {fields[name]}" for name in ("code", "reason") if fields[name] is not None)
    who = "" if fields["by"] is None else f", by {fields['by']}"
    whom = "" if one.holds_all else ", only for recipients that were refused"
    return f"{what}: since {write_second(one.paused_at)}, {until}{who}{whom}{why}"
