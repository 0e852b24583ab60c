"""The counts a tenant sees: rows (scope, day of creation, channel, status, reason), purged never.

``n`` says how many events or jobs are in that status: every transition moves it. ``attempts``, ``rounds``, ``tried``
and ``sent`` say what happened and only grow, but for a mail that comes back: its ``sent`` is taken back. They stand on
whichever row the job came to, and only their sums mean something. Everything is written in the transaction of what
it counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from shared.ids import ScopeId
from shared.store.database import HotConnection

EVENT_CHANNEL = "event"
"""The word in ``ledger.channel`` under which events are counted; jobs stand under their channel."""
SENT_AFTER = "sent_after"
"""The word in ``ledger.status`` of the time from acceptance to SENT: ``reason`` is the number of a bucket, ``sent`` how
many jobs fell into it, and ``n`` is 0."""
BUCKET_RATIO = 1.1
"""Bucket b reaches from 1.1ᵇ to 1.1ᵇ⁺¹ milliseconds: its middle is off by 5 % at most."""

COUNT_DELTA = """
INSERT INTO ledger (scope_id, day, channel, status, reason, n)
SELECT scope_id, day, channel, status, reason, sum(n)
FROM delta
GROUP BY 1, 2, 3, 4, 5
HAVING sum(n) <> 0
ORDER BY 1, 2, 3, 4, 5
ON CONFLICT (scope_id, day, channel, status, reason) DO UPDATE SET n = ledger.n + excluded.n
"""
"""The last part of every statement that moves something: adds a CTE ``delta`` with the ledger's columns up to ``n``.

Rows are locked in one order, and last in their transaction: everybody who writes in a scope meets here.
"""

COUNT_WORK = """
INSERT INTO ledger (scope_id, day, channel, status, reason, n, attempts, rounds, tried, sent)
SELECT scope_id, day, channel, status, reason, sum(n), sum(attempts), sum(rounds), sum(tried), sum(sent)
FROM delta
GROUP BY 1, 2, 3, 4, 5
HAVING sum(n) <> 0 OR sum(attempts) + sum(rounds) + sum(sent) <> 0
ORDER BY 1, 2, 3, 4, 5
ON CONFLICT (scope_id, day, channel, status, reason) DO UPDATE
SET n = ledger.n + excluded.n,
    attempts = ledger.attempts + excluded.attempts,
    rounds = ledger.rounds + excluded.rounds,
    tried = ledger.tried + excluded.tried,
    sent = ledger.sent + excluded.sent
"""
"""``COUNT_DELTA`` for statements that send as well: their ``delta`` has all of the ledger's columns."""


def bucket_of(accepted_at: str, created_at: str, sent_at: str = "now()") -> str:
    """The SQL of the bucket of a job that becomes SENT at ``sent_at``, from the SQL of two of its columns.

    ``accepted_at`` is null in rows from before there was one.
    """
    milliseconds = f"extract(epoch FROM {sent_at} - coalesce({accepted_at}, {created_at}))::float8 * 1000"
    return f"floor(ln(greatest({milliseconds}, 1)) / ln({BUCKET_RATIO}::float8))::int::text"


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """The sums of one (channel, status, reason) over all days asked for."""

    channel: str
    status: str
    reason: str
    n: int
    attempts: int
    rounds: int
    tried: int
    sent: int


LEDGER_OF_SCOPE = """
SELECT channel, status, reason, sum(n)::bigint AS n, sum(attempts)::bigint AS attempts, sum(rounds)::bigint AS rounds,
       sum(tried)::bigint AS tried, sum(sent)::bigint AS sent
FROM ledger
WHERE scope_id = $1 AND day >= $2
GROUP BY channel, status, reason
"""


async def ledger_of_scope(pg: HotConnection, scope_id: ScopeId, since: date = date.min) -> Sequence[LedgerRow]:
    """What is counted of the scope's events and jobs that were created on ``since`` (in UTC) or later."""
    rows = await pg.fetch(LEDGER_OF_SCOPE, scope_id, since)
    return [LedgerRow(*row.values()) for row in rows]
