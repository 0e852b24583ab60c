"""Taking events in: group commit against one insert a request through SQLAlchemy Core, behind the same server."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import func
from sqlalchemy.dialects.postgresql import insert

from services.ingest import accept
from services.ingest.groupcommit import GroupCommit
from shared.event import EventStatus
from shared.store import tables
from shared.store.database import Database
from shared.store.events import NewEvent, StoredEvent
from tests.benchmarks.harness import Bench, Result
from tests.benchmarks.load import Orders, run_load
from tests.fakes.ingest import body, running_ingest

ROUNDS = 3
CONNECTIONS = 64
SECONDS = 6.0


class OneInsert:
    """What most services do: a transaction with one INSERT … ON CONFLICT per request, through SQLAlchemy Core."""

    def __init__(self, database: Database, within: timedelta) -> None:
        self._database = database
        self._within = within

    async def insert_if_new(self, event: NewEvent) -> StoredEvent | None:
        """``event``, committed, or None when its key is taken."""
        table = tables.events
        statement = (
            insert(table)
            .values(
                event_id=event.event_id,
                scope_id=event.scope_id,
                idempotency_key=event.idempotency_key,
                body_hash=event.body_hash,
                event_type=event.event_type,
                ref=event.ref,
                recipient=event.recipient,
                payload=event.payload,
                status=EventStatus.QUEUED,
                file_version=event.file_version,
                received_at=func.now(),
                expires_at=func.now() + event.expires_after,
                announced_at=func.now(),
                request_id=event.request_id,
            )
            .on_conflict_do_nothing()
            .returning(table.c.status, table.c.received_at, table.c.expires_at)
        )
        async with self._database.begin(self._within) as connection:
            row = (await connection.execute(statement)).one_or_none()
        if row is None:
            return None
        return StoredEvent(
            event.event_id,
            event.idempotency_key,
            event.body_hash,
            event.event_type,
            event.ref,
            event.recipient,
            event.payload,
            EventStatus.QUEUED,
            "",
            event.file_version,
            row.received_at,
            None,
            row.expires_at,
            None,
            event.request_id,
        )


async def ingest_group_commit(bench: Bench) -> Result:
    """The ratio of accepted events a second, 64 connections, in interleaved rounds."""
    told: dict[str, list[dict[str, float]]] = {"group": [], "single": []}
    for turn in range(ROUNDS):
        bench.say(f"ingest_group_commit: round {turn + 1} of {ROUNDS}")
        told["single"].append(await _accept_rate(bench, OneInsert))
        told["group"].append(await _accept_rate(bench, GroupCommit))
    group, single = (max(told[name], key=lambda one: one["rate"]) for name in ("group", "single"))
    return {
        "bench": "ingest_group_commit",
        "ratio": round(group["rate"] / single["rate"], 2),
        "events_per_second": round(group["rate"]),
        "single_per_second": round(single["rate"]),
        "p50_ms": round(group["p50_ms"], 1),
        "p99_ms": round(group["p99_ms"], 1),
        "connections": CONNECTIONS,
    }


async def _accept_rate(bench: Bench, commits: Callable[[Database, timedelta], Any]) -> dict[str, float]:
    usual = GroupCommit
    accept.GroupCommit = commits  # type: ignore[attr-defined, assignment]
    try:
        async with bench.database(pool_size=20) as database, running_ingest(database) as ingest:
            url = urlsplit(ingest.base_url)
            key = ingest.live.headers["Authorization"].removeprefix("Bearer ")
            posted = body()
            del posted["idempotency_key"]
            orders = Orders(str(url.hostname), int(url.port or 0), key, posted, CONNECTIONS, SECONDS)
            return await run_load(orders)
    finally:
        accept.GroupCommit = usual  # type: ignore[attr-defined]
