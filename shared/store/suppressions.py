"""Suppressions: addresses that a scope writes to no more, each with the reason that put it there."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import asyncpg

from shared.address import normal_address
from shared.channel import Channel
from shared.ids import ScopeId
from shared.store.database import HotConnection


class SuppressionReason(StrEnum):
    """Why an address is suppressed; the word stored in ``suppressions.reason``."""

    REJECTED = "rejected"
    """A server said during the dialogue that the address is dead."""
    BOUNCED = "bounced"
    """A bounce said so afterwards."""
    COMPLAINT = "complaint"
    """The person behind it called our mail spam."""
    MANUAL = "manual"
    """Somebody of the tenant, or an operator, wanted it so."""


class SuppressionSource(StrEnum):
    """Who put it there; the word stored in ``suppressions.source``."""

    REPLY = "reply"
    """Written with the verdict of an attempt."""
    RECEIPT = "receipt"
    """A receipt, when it was applied."""
    API = "api"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class NewSuppression:
    """An address to suppress; it is stored in its normal form."""

    address: str
    reason: SuppressionReason
    source: SuppressionSource
    code: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Suppression:
    """One address that is suppressed. ``code`` and ``detail`` are the provider's or the operator's words."""

    suppression_id: int
    channel: Channel
    address: str
    reason: SuppressionReason
    source: SuppressionSource
    code: str | None
    detail: str | None
    created_at: datetime


SUPPRESSED_AMONG = """
SELECT address
FROM suppressions
WHERE scope_id = $1 AND channel = $2 AND address = ANY ($3::text[])
"""


async def suppressed_among(
    pg: HotConnection, scope_id: ScopeId, channel: Channel, addresses: Collection[str]
) -> set[str]:
    """Those of ``addresses`` that are suppressed, spelt as they were given."""
    spelt: dict[str, list[str]] = {}
    for address in addresses:
        spelt.setdefault(normal_address(address), []).append(address)
    rows = await pg.fetch(SUPPRESSED_AMONG, scope_id, channel, list(spelt))
    return {address for row in rows for address in spelt[row["address"]]}


SUPPRESSED_OF_SCOPES = """
SELECT s.scope_id, s.address
FROM unnest($2::int[], $3::text[]) AS asked(scope_id, address)
JOIN suppressions s ON s.scope_id = asked.scope_id AND s.channel = $1 AND s.address = asked.address
"""


async def suppressed_of_scopes(
    pg: HotConnection, channel: Channel, asked: Collection[tuple[ScopeId, str]]
) -> set[tuple[ScopeId, str]]:
    """Those of ``asked``, pairs of a scope and an address in normal form, that are suppressed: one read for a batch."""
    rows = await pg.fetch(
        SUPPRESSED_OF_SCOPES, channel, [scope_id for scope_id, _ in asked], [address for _, address in asked]
    )
    return {(ScopeId(row["scope_id"]), row["address"]) for row in rows}


SUPPRESS = """
INSERT INTO suppressions AS s (scope_id, channel, address, reason, source, code, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (scope_id, channel, address) DO UPDATE
SET reason = excluded.reason, source = excluded.source, code = excluded.code, detail = excluded.detail
RETURNING suppression_id, channel, address, reason, source, code, detail, created_at
"""


async def suppress(pg: HotConnection, scope_id: ScopeId, channel: Channel, new: NewSuppression) -> Suppression:
    """The address, suppressed from now on; said again, only reason, source and words are the new ones."""
    row = await pg.fetchrow(
        SUPPRESS, scope_id, channel, normal_address(new.address), new.reason, new.source, new.code, new.detail
    )
    assert row is not None  # noqa: S101 - an upsert returns its row
    return _read(row)


REMOVE_SUPPRESSION = """
DELETE FROM suppressions
WHERE scope_id = $1 AND channel = $2 AND address = $3
"""


async def remove_suppression(pg: HotConnection, scope_id: ScopeId, channel: Channel, address: str) -> bool:
    """Whether the address was suppressed until now."""
    done: str = await pg.execute(REMOVE_SUPPRESSION, scope_id, channel, normal_address(address))
    return done != "DELETE 0"


LIST_SUPPRESSIONS = """
SELECT suppression_id, channel, address, reason, source, code, detail, created_at
FROM suppressions
WHERE scope_id = $1
  AND suppression_id < coalesce($2::bigint, 9223372036854775807)
  AND ($3::text IS NULL OR address = $3)
  AND ($4::text IS NULL OR reason = $4)
ORDER BY suppression_id DESC
LIMIT $5
"""


async def list_suppressions(
    pg: HotConnection,
    scope_id: ScopeId,
    *,
    limit: int,
    before: int | None = None,
    address: str | None = None,
    reason: SuppressionReason | None = None,
) -> Sequence[Suppression]:
    """The scope's suppressions, the last first: at most ``limit`` whose id is under ``before``."""
    wanted = None if address is None else normal_address(address)
    rows = await pg.fetch(LIST_SUPPRESSIONS, scope_id, before, wanted, reason, limit)
    return [_read(row) for row in rows]


def _read(row: asyncpg.Record) -> Suppression:
    return Suppression(
        row["suppression_id"],
        Channel(row["channel"]),
        row["address"],
        SuppressionReason(row["reason"]),
        SuppressionSource(row["source"]),
        row["code"],
        row["detail"],
        row["created_at"],
    )
