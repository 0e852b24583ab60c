"""The inbox as its recipient reads it: entries newest first, and counts that cost nothing."""

from dataclasses import dataclass
from datetime import datetime

from shared.channel import Channel
from shared.content import InappContent
from shared.ids import EventId, ScopeId
from shared.store.content import decode_content
from shared.store.database import HotConnection


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """One entry; ``seq`` counts a recipient's entries from 1, in the order in which they became visible."""

    seq: int
    event_id: EventId
    event_type: str
    content: InappContent
    created_at: datetime
    read_at: datetime | None


@dataclass(frozen=True, slots=True)
class InboxPage:
    """Some entries, and how many there are in all."""

    entries: tuple[InboxEntry, ...]
    unread_count: int
    total_count: int


# Entries are numbered without gaps, so the head's last number is their count. One statement, so that counts and
# entries are of the same moment.
LIST_ENTRIES = """
SELECT h.unread_count, h.last_seq, e.seq, e.event_id, e.event_type, e.content, e.created_at, e.read_at
FROM inbox_heads h
LEFT JOIN LATERAL (
  SELECT seq, event_id, event_type, content, created_at, read_at
  FROM inbox
  WHERE scope_id = h.scope_id AND recipient_id = h.recipient_id AND seq < $3
  ORDER BY seq DESC
  LIMIT $4) e ON true
WHERE h.scope_id = $1 AND h.recipient_id = $2
ORDER BY e.seq DESC
"""

BEYOND_EVERY_SEQ = 2**63 - 1


async def list_entries(
    pg: HotConnection, scope_id: ScopeId, recipient_id: str, *, before: int = BEYOND_EVERY_SEQ, limit: int
) -> InboxPage:
    """At most ``limit`` entries older than number ``before``, newest first; somebody unknown has none."""
    rows = await pg.fetch(LIST_ENTRIES, scope_id, recipient_id, before, limit)
    if not rows:
        return InboxPage((), 0, 0)
    entries = (
        InboxEntry(
            row["seq"],
            EventId(row["event_id"]),
            row["event_type"],
            _inapp(row["content"]),
            row["created_at"],
            row["read_at"],
        )
        for row in rows
        if row["seq"] is not None
    )
    return InboxPage(tuple(entries), rows[0]["unread_count"], rows[0]["last_seq"])


def _inapp(text: str) -> InappContent:
    content = decode_content(Channel.INAPP, text)
    assert isinstance(content, InappContent)  # noqa: S101 - what decode_content gives for this channel
    return content
