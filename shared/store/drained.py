"""What a measurement of the engine asks the tables: is the backlog done, and when did each job end."""

from collections.abc import Sequence

from shared.channel import Channel
from shared.job import JobStatus
from shared.store.database import HotConnection
from shared.store.ledger import EVENT_CHANNEL

VACUUM = "VACUUM (ANALYZE) outgoing, content"

CHECKPOINT = "CHECKPOINT"

SENT_COUNT = f"""
SELECT coalesce(sum(n), 0)::bigint
FROM ledger
WHERE channel <> '{EVENT_CHANNEL}' AND status = '{JobStatus.SENT}'
"""

FINISH_TIMES = """
SELECT array_agg(extract(epoch FROM finished_at)::float8 ORDER BY finished_at)
FROM outgoing
WHERE channel = $1 AND status = 'SENT'
"""


async def vacuum(pg: HotConnection) -> None:
    """Statistics and visibility as autovacuum would leave them, right after a bulk load."""
    await pg.execute(VACUUM)


async def checkpoint(pg: HotConnection) -> None:
    """Everything written so far is on the disk, so that nobody's measurement pays for it; needs a superuser."""
    await pg.execute(CHECKPOINT)


async def sent_count(pg: HotConnection) -> int:
    """How many jobs of all scopes are SENT: a sum over a few ledger rows, cheap enough to ask ten times a second."""
    count: int = await pg.fetchval(SENT_COUNT)
    return count


async def finish_times(pg: HotConnection, channel: Channel) -> Sequence[float]:
    """When each SENT job was recorded as finished, in seconds by the database's clock, in order."""
    times: Sequence[float] | None = await pg.fetchval(FINISH_TIMES, channel)
    return times or []
