"""Preferences: which categories a person wants on which channel. Where there is no row, everything is wanted."""

from collections.abc import Collection

from shared.channel import Channel
from shared.ids import ScopeId
from shared.store.database import HotConnection

SET_PREFERENCE = """
INSERT INTO preferences (scope_id, recipient_id, category, channel, wanted)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (scope_id, recipient_id, category, channel) DO UPDATE
SET wanted = excluded.wanted, changed_at = now()
"""


async def set_preference(
    pg: HotConnection, scope_id: ScopeId, recipient_id: str, category: str, channel: Channel, *, wanted: bool
) -> None:
    """From now on the recipient wants mail of ``category`` on ``channel``, or does not."""
    await pg.execute(SET_PREFERENCE, scope_id, recipient_id, category, channel, wanted)


UNWANTED_AMONG = """
SELECT p.scope_id, p.recipient_id, p.category, p.channel
FROM unnest($1::int[], $2::text[], $3::text[]) AS asked(scope_id, recipient_id, category)
JOIN preferences p USING (scope_id, recipient_id, category)
WHERE NOT p.wanted
"""

Wanting = tuple[ScopeId, str, str]
"""A scope, a recipient and a category."""


async def unwanted_among(pg: HotConnection, asked: Collection[Wanting]) -> set[tuple[Wanting, Channel]]:
    """Those of ``asked`` that are switched off, with the channel: one read for a batch."""
    rows = await pg.fetch(
        UNWANTED_AMONG,
        [scope_id for scope_id, _, _ in asked],
        [recipient_id for _, recipient_id, _ in asked],
        [category for _, _, category in asked],
    )
    return {((ScopeId(row["scope_id"]), row["recipient_id"], row["category"]), Channel(row["channel"])) for row in rows}
