"""The counts a tenant sees: rows (scope, day of creation, channel, status, reason) that every transition moves."""

from shared.ids import ScopeId
from shared.store.database import HotConnection

EVENT_CHANNEL = "event"
"""The word in ``ledger.channel`` under which events are counted; jobs stand under their channel."""

COUNT_DELTA = """
INSERT INTO ledger (scope_id, day, channel, status, reason, n)
SELECT scope_id, day, channel, status, reason, sum(n)
FROM delta
GROUP BY 1, 2, 3, 4, 5
HAVING sum(n) <> 0
ORDER BY 1, 2, 3, 4, 5
ON CONFLICT (scope_id, day, channel, status, reason) DO UPDATE SET n = ledger.n + excluded.n
"""
"""The last part of every statement that moves something: adds a CTE ``delta`` with the ledger's columns.

Rows are locked in one order, and last in their transaction: everybody who writes in a scope meets here.
"""

COUNTS = """
SELECT channel, status, sum(n)::bigint AS n
FROM ledger
WHERE scope_id = $1
GROUP BY channel, status
"""


async def counts_of_scope(pg: HotConnection, scope_id: ScopeId) -> dict[tuple[str, str], int]:
    """How many events and jobs of the scope there are, by (channel, status); what never occurred is absent."""
    rows = await pg.fetch(COUNTS, scope_id)
    return {(row["channel"], row["status"]): row["n"] for row in rows}
