"""What the feed of changes must say, from the tables themselves; and reading it as a product does."""

from collections.abc import Sequence
from typing import Any

import httpx

from services.ingest.numberer import Numberer
from shared.store.database import Database
from tests.fakes.product import eventually

# The feed as it will be read: numbered rows by number, then the others as they will be numbered.
TOLD = """
SELECT c.scope_id, c.channel, e.event_id, c.status, c.reason,
       row_number() OVER (PARTITION BY e.event_id, c.channel ORDER BY c.last_seq, c.change_id) AS turn,
       count(*) OVER (PARTITION BY e.event_id, c.channel) AS turns,
       lag((c.status, c.reason)) OVER (PARTITION BY e.event_id, c.channel ORDER BY c.last_seq, c.change_id)
         IS NOT DISTINCT FROM (c.status, c.reason) AS repeats
FROM changes c
CROSS JOIN unnest(c.event_ids) AS e(event_id)
WHERE c.kind = 'job'
"""
JOBS = f"""
WITH told AS ({TOLD}),
last_told AS (SELECT * FROM told WHERE turn = turns)
SELECT 'job', o.event_id, o.channel, o.status, o.reason, t.status, t.reason
FROM outgoing o
LEFT JOIN last_told t ON t.event_id = o.event_id AND t.channel = o.channel AND t.scope_id = o.scope_id
WHERE (o.status, o.reason) IS DISTINCT FROM (coalesce(t.status, 'PENDING'), coalesce(t.reason, ''))
UNION ALL
SELECT 'told twice', event_id, channel, status, reason, '', ''
FROM told
WHERE repeats
"""
"""Jobs that are not what the feed told of them last, and changes that were none."""
NUMBERS = """
SELECT scope_id, last_seq, n, before
FROM (
  SELECT scope_id, last_seq, n, lag(last_seq, 1, 0::bigint) OVER (PARTITION BY scope_id ORDER BY last_seq) AS before
  FROM changes
  WHERE last_seq IS NOT NULL) c
WHERE last_seq <> before + n
UNION ALL
SELECT scope_id, last_seq, 0, (SELECT coalesce(max(c.last_seq), 0) FROM changes c WHERE c.scope_id = h.scope_id)
FROM change_heads h
WHERE last_seq <> (SELECT coalesce(max(c.last_seq), 0) FROM changes c WHERE c.scope_id = h.scope_id)
"""
"""Gaps and overlaps in the numbers; before any purge."""


async def change_mistakes(database: Database) -> list[tuple[object, ...]]:
    """Where the feed and the tables disagree: [] when a product that reads it knows everything."""
    async with database.hot() as pg:
        rows = [await pg.fetch(statement) for statement in (JOBS, NUMBERS)]
    return [tuple(row) for one in rows for row in one]


async def number_all(database: Database) -> int:
    """Give everything that is committed its place; how many rows that were."""
    return await Numberer(database).number()


async def read_all(client: httpx.AsyncClient, after: int | None = None, limit: int = 50) -> list[dict[str, Any]]:
    """Every change there is after ``after``, page by page."""
    changes: list[dict[str, Any]] = []
    while True:
        where = {} if after is None else {"after": after}
        answer = await client.get("/api/v1/changes", params={"limit": limit, **where})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        changes += page["data"]
        if page["next_cursor"] is None:
            return changes
        after = int(page["next_cursor"])


def in_short(changes: Sequence[dict[str, Any]]) -> list[tuple[str, str | None, str | None, str | None]]:
    """Kind, channel, status and reason of each."""
    return [(one["kind"], one["channel"], one["status"], one["reason"]) for one in changes]


async def until_told(client: httpx.AsyncClient, count: int) -> list[dict[str, Any]]:
    """All changes, once there are ``count`` of them."""

    async def told() -> list[dict[str, Any]] | None:
        changes = await read_all(client)
        return changes if len(changes) >= count else None

    return await eventually(told)
