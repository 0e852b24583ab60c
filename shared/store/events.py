"""Events: taken once per idempotency key, and read back for the API."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg

from shared.event import EventStatus
from shared.ids import EventId, ScopeId
from shared.store.database import HotConnection
from shared.store.ledger import COUNT_DELTA


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event that passed every check; ``recipient`` and ``payload`` are JSON text.

    Without ``expires_at`` it expires ``expires_after`` from ``send_at``, or from acceptance if that is later.
    """

    event_id: EventId
    scope_id: ScopeId
    idempotency_key: str
    body_hash: bytes
    event_type: str
    ref: str | None
    recipient: str
    payload: str
    file_version: int
    send_at: datetime | None
    expires_at: datetime | None
    expires_after: timedelta
    request_id: str


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it is now; ``recipient`` and ``payload`` are JSON text."""

    event_id: EventId
    idempotency_key: str
    body_hash: bytes
    event_type: str
    ref: str | None
    recipient: str
    payload: str
    status: EventStatus
    reason: str
    file_version: int
    received_at: datetime
    send_at: datetime | None
    expires_at: datetime
    routed_at: datetime | None
    request_id: str
    detail: str | None = None


_EVENT_COLUMNS = """
  event_id, idempotency_key, body_hash, event_type, ref, recipient, payload, status, reason, file_version,
  received_at, send_at, expires_at, routed_at, request_id, detail
"""

# Sorted by the unique key: two flushes that overlap must not wait for each other crosswise.
INSERT_IF_NEW = f"""
WITH posted AS (
  SELECT p.*, coalesce($14::timestamptz, now()) AS accepted_at
  FROM unnest($1::uuid[], $2::int[], $3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::text[],
              $9::int[], $10::timestamptz[], $11::timestamptz[], $12::interval[], $13::text[])
    AS p(event_id, scope_id, idempotency_key, body_hash, event_type, ref, recipient, payload,
         file_version, send_at, expires_at, expires_after, request_id)
),
fresh AS (
  INSERT INTO events (event_id, scope_id, idempotency_key, body_hash, event_type, ref, recipient, payload,
                      status, file_version, received_at, send_at, expires_at, announced_at, request_id)
  SELECT event_id, scope_id, idempotency_key, body_hash, event_type, ref, recipient::json, payload::json,
         CASE WHEN send_at > accepted_at THEN 'SCHEDULED' ELSE 'QUEUED' END,
         file_version, accepted_at, send_at,
         coalesce(expires_at, greatest(send_at, accepted_at) + expires_after), accepted_at, request_id
  FROM posted
  ORDER BY scope_id, idempotency_key
  ON CONFLICT (scope_id, idempotency_key) DO NOTHING
  RETURNING scope_id, {_EVENT_COLUMNS}
),
delta AS (
  SELECT scope_id, (received_at AT TIME ZONE 'UTC')::date AS day, 'event' AS channel, status, '' AS reason, 1 AS n
  FROM fresh
),
counted AS ({COUNT_DELTA})
SELECT {_EVENT_COLUMNS}
FROM fresh
"""


async def insert_if_new(
    pg: HotConnection, events: Sequence[NewEvent], now: datetime | None = None
) -> dict[EventId, StoredEvent]:
    """Those of ``events`` whose idempotency key is new in its scope, inserted and counted, in one transaction.

    A key that another transaction is about to commit is waited for. The keys of ``events`` differ from one another.
    """
    rows = await pg.fetch(
        INSERT_IF_NEW,
        [event.event_id for event in events],
        [event.scope_id for event in events],
        [event.idempotency_key for event in events],
        [event.body_hash for event in events],
        [event.event_type for event in events],
        [event.ref for event in events],
        [event.recipient for event in events],
        [event.payload for event in events],
        [event.file_version for event in events],
        [event.send_at for event in events],
        [event.expires_at for event in events],
        [event.expires_after for event in events],
        [event.request_id for event in events],
        now,
    )
    return {EventId(row["event_id"]): _stored(row) for row in rows}


FIND_BY_KEY = f"""
SELECT {_EVENT_COLUMNS}
FROM events
WHERE scope_id = $1 AND idempotency_key = $2
"""


async def find_by_key(pg: HotConnection, scope_id: ScopeId, idempotency_key: str) -> StoredEvent | None:
    """The scope's event with this idempotency key, or None."""
    row = await pg.fetchrow(FIND_BY_KEY, scope_id, idempotency_key)
    return None if row is None else _stored(row)


READ_EVENT = f"""
SELECT {_EVENT_COLUMNS}
FROM events
WHERE scope_id = $1 AND event_id = $2
"""


async def read_event(pg: HotConnection, scope_id: ScopeId, event_id: EventId) -> StoredEvent | None:
    """The scope's event with this id, or None: also when it is another scope's."""
    row = await pg.fetchrow(READ_EVENT, scope_id, event_id)
    return None if row is None else _stored(row)


READ_EVENTS = f"""
SELECT {_EVENT_COLUMNS.replace("payload", "'' AS payload")}
FROM unnest($2::uuid[]) WITH ORDINALITY AS k(event_id, place)
JOIN events USING (event_id)
WHERE scope_id = $1
ORDER BY place
"""


async def read_events(pg: HotConnection, scope_id: ScopeId, event_ids: Sequence[EventId]) -> list[StoredEvent]:
    """The scope's events with these ids, in their order, each with an empty ``payload``: it may be large."""
    return [_stored(row) for row in await pg.fetch(READ_EVENTS, scope_id, event_ids)]


def _stored(row: asyncpg.Record) -> StoredEvent:
    return StoredEvent(
        EventId(row["event_id"]),
        row["idempotency_key"],
        row["body_hash"],
        row["event_type"],
        row["ref"],
        row["recipient"],
        row["payload"],
        EventStatus(row["status"]),
        row["reason"],
        row["file_version"],
        row["received_at"],
        row["send_at"],
        row["expires_at"],
        row["routed_at"],
        row["request_id"],
        row["detail"],
    )
