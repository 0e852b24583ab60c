"""Pauses: what is not to be sent for now, said by an operator or by a provider that refuses us.

The table has a handful of rows; every worker reads all of it once a second.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.channel import Channel
from shared.ids import TenantId
from shared.store.database import HotConnection


class PauseKind(StrEnum):
    """What a pause is of; the word stored in ``pauses.kind``."""

    CHANNEL = "channel"
    """An operator's: the whole channel."""
    TENANT = "tenant"
    """An operator's: one tenant, on one channel or ('') on all of them."""
    EVENT_TYPE = "event_type"
    """An operator's: one event type (``name``) of a tenant, on one channel or ('') on all of them."""
    RELAY = "relay"
    """A provider's: it refuses us on this circuit (``name``), whoever the mail is from."""
    SENDER = "sender"
    """A provider's: it refuses this tenant on this circuit (``name``)."""


EVERY_TENANT = TenantId(0)
OPERATORS = (PauseKind.CHANNEL, PauseKind.TENANT, PauseKind.EVENT_TYPE)


@dataclass(frozen=True, slots=True)
class PauseKey:
    """What is paused; ``channel`` '' is every channel, ``tenant_id`` 0 every tenant, ``name`` as its kind says."""

    kind: PauseKind
    channel: str = ""
    tenant_id: TenantId = EVERY_TENANT
    name: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """One pause that stands. ``until`` None: until somebody resumes.

    ``left`` is the time to ``until`` when it was read, None where that is none, or years away.
    ``over``: a provider's pause whose time is up; it stands until one job has got through. ``failures`` counts the
    refusals in a row that were believed, 0: only some recipients were refused, and nobody else is held. ``reason`` and
    ``code`` are the operator's or the provider's words.
    """

    pause_id: int
    key: PauseKey
    reason: str
    code: str
    paused_at: datetime
    until: datetime | None
    left: timedelta | None
    over: bool
    failures: int

    @property
    def holds_all(self) -> bool:
        """Whether it holds whatever it names; if not, only recipients that were refused themselves."""
        return self.failures > 0 or self.key.kind in OPERATORS


# An operator's pause ends by itself; a provider's has to be proven over. Up to the end of the calendar it is further
# than an interval can say.
READ_PAUSES = """
SELECT pause_id, kind, channel, tenant_id, name, reason, code, paused_at, paused_until,
       CASE WHEN paused_until < now() + interval '10 years' THEN paused_until - now() END AS left,
       coalesce(paused_until <= now(), false) AS over, failures
FROM pauses
WHERE kind IN ('relay', 'sender') OR paused_until IS NULL OR paused_until > now()
ORDER BY pause_id
"""


async def read_pauses(pg: HotConnection) -> list[Pause]:
    """Every pause that stands, oldest first."""
    return [_read(row) for row in await pg.fetch(READ_PAUSES)]


PAUSE = """
INSERT INTO pauses AS p (kind, channel, tenant_id, name, reason, code, paused_until)
VALUES ($1, $2, $3, $4, left($5, 1024), left($6, 64), $7)
ON CONFLICT (kind, channel, tenant_id, name) DO UPDATE
SET reason = excluded.reason, code = excluded.code, paused_until = excluded.paused_until, paused_at = now()
"""


async def pause(pg: HotConnection, key: PauseKey, reason: str, until: datetime | None, by: str = "") -> None:
    """Have ``key`` paused by an operator, who is called ``by``: kept as its code.

    A second pause of the same takes the place of the first.
    """
    await pg.execute(PAUSE, *_arguments(key), reason, by, until)


# The first refusal counts, and after that only one that comes when the pause was over: many jobs are in flight. But
# what only some recipients met gives way at once to what holds all.
BLOCK = """
INSERT INTO pauses AS p (kind, channel, tenant_id, name, reason, code, paused_until, failures)
VALUES ($1, $2, $3, $4, left($5, 1024), left($6, 64), now() + $7::interval, CASE WHEN $9 THEN 1 ELSE 0 END)
ON CONFLICT (kind, channel, tenant_id, name) DO UPDATE
SET reason = excluded.reason,
    code = excluded.code,
    failures = p.failures + CASE WHEN $9 OR p.failures > 0 THEN 1 ELSE 0 END,
    paused_until = now() + least($7::interval * 2 ^ least(p.failures, 16), $8::interval),
    probing_until = '-infinity'
WHERE p.paused_until <= now() OR ($9 AND p.failures = 0)
RETURNING pause_id
"""


async def block(
    pg: HotConnection,
    key: PauseKey,
    reason: str,
    code: str,
    step: timedelta,
    ceiling: timedelta,
    *,
    holds_all: bool = True,
) -> bool:
    """Have ``key`` paused because a provider refuses us, for ``step`` · 2ⁿ, at most ``ceiling``.

    n counts the refusals before this one; a refusal while the pause lasts changes nothing, and False is returned.
    ``holds_all``: not only those recipients for whom we were refused. What holds all goes on doing so.
    """
    return await pg.fetchval(BLOCK, *_arguments(key), reason, code, step, ceiling, holds_all) is not None


TAKE_PROBE_IF_FREE = """
UPDATE pauses
SET probing_until = now() + $2::interval
WHERE pause_id = $1 AND paused_until <= now() AND probing_until <= now()
RETURNING pause_id
"""


async def take_probe_if_free(pg: HotConnection, pause_id: int, lasts: timedelta) -> bool:
    """Whether the caller may try one job against a pause that is over; nobody else may for as long as it ``lasts``."""
    return await pg.fetchval(TAKE_PROBE_IF_FREE, pause_id, lasts) is not None


LIFT = """
DELETE FROM pauses
WHERE pause_id = $1
"""


async def lift(pg: HotConnection, pause_id: int) -> None:
    """End a pause: one job has got through."""
    await pg.execute(LIFT, pause_id)


RESUME = """
DELETE FROM pauses
WHERE kind = $1 AND channel = $2 AND tenant_id = $3 AND name = $4
RETURNING paused_until IS NULL OR paused_until > now()
"""


async def resume(pg: HotConnection, key: PauseKey) -> bool:
    """End an operator's pause of ``key``; False when there is none, or it has ended by itself."""
    return bool(await pg.fetchval(RESUME, *_arguments(key)))


LIFT_OF_SENDER = text("""
DELETE FROM pauses
WHERE kind = 'sender' AND channel = :channel AND tenant_id = :tenant_id
""")


async def lift_of_sender(connection: AsyncConnection, tenant_id: TenantId, channel: Channel) -> None:
    """End what providers have against the tenant on ``channel``: its credentials are no longer those they refused."""
    await connection.execute(LIFT_OF_SENDER, {"channel": channel, "tenant_id": tenant_id})


FORGET_STALE = """
DELETE FROM pauses
WHERE paused_until < now() - $1::interval
"""


async def forget_stale(pg: HotConnection, after: timedelta) -> None:
    """End the pauses that have been over for ``after``: nobody goes that way any more, or the next job will tell."""
    await pg.execute(FORGET_STALE, after)


def _arguments(key: PauseKey) -> tuple[str, str, int, str]:
    return key.kind, key.channel, key.tenant_id, key.name


def _read(row: asyncpg.Record) -> Pause:
    return Pause(
        row["pause_id"],
        PauseKey(PauseKind(row["kind"]), row["channel"], TenantId(row["tenant_id"]), row["name"]),
        row["reason"],
        row["code"],
        row["paused_at"],
        row["paused_until"],
        row["left"],
        row["over"],
        row["failures"],
    )
