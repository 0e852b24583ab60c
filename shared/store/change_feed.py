"""The feed of changes as a product reads it, from where it was on, and its old end."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg

from shared.change import ChangeKind
from shared.channel import Channel
from shared.ids import EventId, ScopeId
from shared.store.database import HotConnection


@dataclass(frozen=True, slots=True)
class Extent:
    """Where a scope's feed ends, and up to which number it is gone; both 0 while there has been nothing."""

    last_seq: int
    gone_seq: int


@dataclass(frozen=True, slots=True)
class GoneTarget:
    """A push target that is no more; ``target_id`` is the one outside."""

    target_id: str
    kind: str
    recipient_id: str
    platform: str | None
    app: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the feed. ``event_id`` is None where no event has to do with it; status and reason may be ''."""

    seq: int
    at: datetime
    kind: ChangeKind
    channel: Channel | None
    status: str
    reason: str
    event_id: EventId | None
    target: GoneTarget | None


EXTENT = """
SELECT last_seq, gone_seq
FROM change_heads
WHERE scope_id = $1
"""


async def extent_of(pg: HotConnection, scope_id: ScopeId) -> Extent:
    """What there is of the scope's feed."""
    row = await pg.fetchrow(EXTENT, scope_id)
    return Extent(0, 0) if row is None else Extent(row["last_seq"], row["gone_seq"])


# The numbers have no gaps, so that a page is known before it is read: from the row that has the first number to the one
# that has the last, and of both no more ids than the page shows.
READ_AFTER = """
SELECT c.kind, c.channel, c.status, c.reason, c.at, c.target, c.n, c.last_seq - c.n AS before,
       c.event_ids[greatest($2 - (c.last_seq - c.n), 0) + 1 : least($2 + $3 - (c.last_seq - c.n), c.n)] AS event_ids
FROM changes c
WHERE c.scope_id = $1
  AND c.last_seq > $2
  AND c.last_seq <= coalesce((
    SELECT e.last_seq
    FROM changes e
    WHERE e.scope_id = $1 AND e.last_seq >= $2 + $3
    ORDER BY e.last_seq
    LIMIT 1), 9223372036854775807)
ORDER BY c.last_seq
LIMIT $3
"""


async def read_after(pg: HotConnection, scope_id: ScopeId, seq: int, limit: int) -> list[Change]:
    """The next ``limit`` changes after ``seq``, which must not be older than what is kept."""
    rows = await pg.fetch(READ_AFTER, scope_id, seq, limit)
    return [change for row in rows for change in _expand(row, seq)]


@dataclass(frozen=True, slots=True)
class EventWords:
    """What is told of a change's event."""

    event_type: str
    ref: str | None
    recipient_id: str


WORDS_OF_EVENTS = """
SELECT event_id, event_type, ref, recipient ->> 'id' AS recipient_id
FROM events
WHERE event_id = ANY ($2::uuid[]) AND scope_id = $1
"""


async def words_of_events(
    pg: HotConnection, scope_id: ScopeId, event_ids: Sequence[EventId]
) -> Mapping[EventId, EventWords]:
    """The scope's events of ``event_ids``; one that was purged is absent."""
    rows = await pg.fetch(WORDS_OF_EVENTS, scope_id, event_ids)
    return {EventId(row["event_id"]): EventWords(row["event_type"], row["ref"], row["recipient_id"]) for row in rows}


# The old end of each feed, and nothing from its middle: the first row that is young enough ends it, whatever is behind.
PURGE_CHANGES = """
WITH feeds AS MATERIALIZED (
  SELECT h.scope_id, h.gone_seq
  FROM change_heads h
  WHERE h.gone_seq < h.last_seq
    AND (SELECT c.at
         FROM changes c
         WHERE c.scope_id = h.scope_id AND c.last_seq > h.gone_seq
         ORDER BY c.last_seq
         LIMIT 1) < now() - $1::interval
  ORDER BY h.scope_id
  LIMIT $2
  FOR UPDATE SKIP LOCKED
),
old AS MATERIALIZED (
  SELECT scope_id, change_id, last_seq
  FROM (
    SELECT f.scope_id, c.change_id, c.last_seq,
           bool_and(c.at < now() - $1::interval) OVER (PARTITION BY f.scope_id ORDER BY c.last_seq) AS is_old
    FROM feeds f
    CROSS JOIN LATERAL (
      SELECT change_id, last_seq, at
      FROM changes
      WHERE scope_id = f.scope_id AND last_seq > f.gone_seq
      ORDER BY last_seq
      LIMIT $3) c) o
  WHERE is_old
),
moved AS (
  UPDATE change_heads h
  SET gone_seq = o.last_seq
  FROM (SELECT scope_id, max(last_seq) AS last_seq FROM old GROUP BY scope_id) o
  WHERE h.scope_id = o.scope_id
),
gone AS (
  DELETE FROM changes
  WHERE change_id = ANY (ARRAY(SELECT change_id FROM old))
)
SELECT count(*)
FROM old
"""


async def purge_changes(pg: HotConnection, keep: timedelta, scopes: int, limit: int) -> int:
    """How many rows older than ``keep`` are gone now: at most ``limit`` of each of at most ``scopes`` feeds.

    Feeds that somebody else is at are passed over.
    """
    count: int = await pg.fetchval(PURGE_CHANGES, keep, scopes, limit)
    return count


def _expand(row: asyncpg.Record, after: int) -> list[Change]:
    first = max(row["before"], after) + 1
    channel = Channel(row["channel"]) if row["channel"] else None
    kind = ChangeKind(row["kind"])
    if row["target"] is not None:
        shown = json.loads(row["target"])
        target = GoneTarget(shown["id"], shown["kind"], shown["recipient_id"], shown["platform"], shown["app"])
        event_id = EventId(row["event_ids"][0]) if row["event_ids"] else None
        return [Change(first, row["at"], kind, channel, row["status"], row["reason"], event_id, target)]
    return [
        Change(seq, row["at"], kind, channel, row["status"], row["reason"], EventId(event_id), None)
        for seq, event_id in enumerate(row["event_ids"], start=first)
    ]
