"""Group commit: every event on its own terms, whatever stands beside it in the same statement."""

import asyncio
from datetime import timedelta
from typing import Any

from services.ingest.groupcommit import GroupCommit
from shared.ids import ScopeId, new_event_id
from shared.store.database import Database
from shared.store.events import NewEvent, StoredEvent

WITHIN = timedelta(seconds=20)
Answer = StoredEvent | BaseException | None


def event(key: str, *, scope_id: int = 1, **changes: Any) -> NewEvent:
    fields: dict[str, Any] = {
        "event_id": new_event_id(),
        "scope_id": ScopeId(scope_id),
        "idempotency_key": key,
        "body_hash": bytes(32),
        "event_type": "booking_confirmed",
        "ref": None,
        "recipient": '{"id":"bob"}',
        "payload": "{}",
        "file_version": 1,
        "send_at": None,
        "expires_at": None,
        "expires_after": timedelta(hours=24),
        "request_id": "",
    }
    return NewEvent(**(fields | changes))


async def insert(database: Database, *events: NewEvent) -> list[Answer]:
    commits = GroupCommit(database, WITHIN)
    return await asyncio.gather(*(commits.insert_if_new(one) for one in events), return_exceptions=True)


async def test_everything_at_once_is_committed_and_counted_in_few_transactions(database: Database) -> None:
    async with database.hot() as pg:
        before = await pg.fetchval("SELECT pg_current_xact_id()::text::bigint")
        answers = await insert(database, *(event(f"k{n}") for n in range(300)))
        used = await pg.fetchval("SELECT pg_current_xact_id()::text::bigint") - before
        counted = await pg.fetchval("SELECT n FROM ledger WHERE channel = 'event' AND status = 'QUEUED'")
    assert all(isinstance(answer, StoredEvent) for answer in answers)
    assert counted == 300
    assert used <= 10


async def test_a_key_that_comes_twice_in_one_group_is_inserted_once(database: Database) -> None:
    answers = await insert(database, *(event(key) for key in ("a", "b", "a", "a", "c", "b")))
    assert not [answer for answer in answers if isinstance(answer, BaseException)]
    assert sorted(one.idempotency_key for one in answers if isinstance(one, StoredEvent)) == ["a", "b", "c"]


async def test_a_row_that_the_database_refuses_fails_alone(database: Database) -> None:
    refused = event("refused", body_hash=b"too short")
    answers = await insert(database, event("a"), event("b"), refused, event("c"), event("refused"))
    assert [isinstance(answer, StoredEvent) for answer in answers] == [True, True, False, True, False]
    assert isinstance(answers[2], Exception)
    async with database.hot() as pg:
        assert await pg.fetchval("SELECT count(*) FROM events") == 3


async def test_overlapping_groups_of_the_same_keys_never_deadlock(database: Database) -> None:
    keys = [f"k{n}" for n in range(40)]

    async def one_replica(turn: int) -> list[Answer]:
        shifted = keys[turn:] + keys[:turn]
        return await insert(database, *(event(key, scope_id=n % 2 + 1) for n, key in enumerate(shifted)))

    answers = [answer for replica in await asyncio.gather(*(one_replica(n) for n in range(8))) for answer in replica]
    assert not [answer for answer in answers if isinstance(answer, BaseException)]
    async with database.hot() as pg:
        rows = await pg.fetchval("SELECT count(*) FROM events")
        counted = await pg.fetchval("SELECT sum(n) FROM ledger")
    assert sum(isinstance(answer, StoredEvent) for answer in answers) == rows == counted
