"""What a statement really does to its tables, told by EXPLAIN instead of being believed."""

import json
from collections.abc import Iterator
from typing import Any

from shared.store.database import HotConnection


class Watched:
    """A connection that explains every statement with what it did before running it; to be used in a transaction."""

    def __init__(self, pg: HotConnection) -> None:
        """Nothing has been watched yet."""
        self.unwatched = pg
        self.most_rows = 0
        """The most rows that any step of any plan went through."""
        self.buffers = 0
        """The pages that all statements have touched."""
        self.scanned: set[str] = set()
        """The tables that were read from end to end."""
        self.most_sorted = 0
        """The most rows that any plan sorted."""

    async def fetch(self, statement: str, *arguments: Any, timeout: float | None = None) -> Any:
        """The statement's rows; what its plan did is noted."""
        await self._explain(statement, arguments)
        return await self.unwatched.fetch(statement, *arguments, timeout=timeout)

    async def fetchrow(self, statement: str, *arguments: Any) -> Any:
        """The statement's first row; what its plan did is noted."""
        await self._explain(statement, arguments)
        return await self.unwatched.fetchrow(statement, *arguments)

    async def fetchval(self, statement: str, *arguments: Any) -> Any:
        """The statement's first value; what its plan did is noted."""
        await self._explain(statement, arguments)
        return await self.unwatched.fetchval(statement, *arguments)

    async def execute(self, statement: str, *arguments: Any) -> Any:
        """The statement's status; what its plan did is noted, if it has one."""
        if not statement.lstrip().startswith("SET "):
            await self._explain(statement, arguments)
        return await self.unwatched.execute(statement, *arguments)

    def transaction(self) -> Any:
        """A transaction within the one there is."""
        return self.unwatched.transaction()

    async def _explain(self, statement: str, arguments: tuple[Any, ...]) -> None:
        attempt = self.unwatched.transaction()
        await attempt.start()
        (row,) = await self.unwatched.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", *arguments)
        # It wrote what it writes: the statement itself comes after.
        await attempt.rollback()
        for node in nodes_of(json.loads(row[0])[0]["Plan"]):
            done = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            self.most_rows = max(self.most_rows, done * node["Actual Loops"])
            # What a CTE writes is counted at its own node, and not always at those above it.
            self.buffers += max(0, _pages(node) - sum(map(_pages, node.get("Plans", ()))))
            if node["Node Type"] == "Seq Scan":
                self.scanned.add(node["Relation Name"])
            if "Sort" in node["Node Type"]:
                self.most_sorted = max(
                    self.most_sorted, *(plan["Actual Rows"] * plan["Actual Loops"] for plan in node["Plans"])
                )


def nodes_of(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """``node`` of a plan and every node below it."""
    yield node
    for child in node.get("Plans", ()):
        yield from nodes_of(child)


def _pages(node: dict[str, Any]) -> int:
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])
