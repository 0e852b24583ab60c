"""API keys in use: who gets in, who does not, and how soon a revocation counts."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from shared.errors import Problem
from shared.ids import ScopeId
from shared.keys import OPERATIONS, Permission, hash_key, mint_key
from shared.store.database import Database
from shared.store.keys import create_key, find_key, list_keys, note_uses, revoke_if_not_yet
from shared.tenant import Mode
from shared.web.auth import REMEMBERED_FOR, KeyRing
from tests.fakes.ingest import Ingest, apply_model, body, running_ingest, tenant_model

POST = "/api/v1/events"
TARGETS = "/api/v1/recipients/bob/push-targets"
CALLS = {
    "post_event": ("POST", POST),
    "get_event": ("GET", f"/api/v1/events/evt_{'0' * 32}"),
    "cancel_event": ("POST", f"{POST}/evt_{'0' * 32}/cancel"),
    "cancel_events_of_ref": ("POST", f"{POST}/cancel"),
    "list_events": ("GET", POST),
    "list_jobs": ("GET", "/api/v1/jobs"),
    "list_failed_jobs": ("GET", "/api/v1/jobs/failed"),
    "retry_job": ("POST", f"/api/v1/jobs/job_{'0' * 32}/retry"),
    "retry_failed_jobs": ("POST", "/api/v1/jobs/failed/retry"),
    "get_metrics": ("GET", "/api/v1/metrics"),
    "put_push_target": ("PUT", TARGETS),
    "list_push_targets": ("GET", TARGETS),
    "delete_push_target": ("DELETE", TARGETS),
    "delete_push_target_by_id": ("DELETE", f"{TARGETS}/tgt_{'0' * 32}"),
    "list_changes": ("GET", "/api/v1/changes"),
    "list_suppressions": ("GET", "/api/v1/suppressions"),
    "post_suppression": ("POST", "/api/v1/suppressions"),
    "delete_suppression": ("DELETE", "/api/v1/suppressions/ada@school.example"),
}


@pytest.fixture
async def ingest(database: Database) -> AsyncIterator[Ingest]:
    async with running_ingest(database) as running:
        yield running


@pytest.fixture
async def scope_id(database: Database) -> ScopeId:
    return (await apply_model(database, tenant_model()))[Mode.LIVE]


def refusal(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert ("WWW-Authenticate" in answer.headers) == (answer.status_code == 401)
    return answer.status_code, answer.json()["code"]


async def test_every_described_operation_is_closed_without_the_right_key(
    ingest: Ingest, subtests: pytest.Subtests
) -> None:
    described = (await ingest.live.get("/api/v1/openapi.json")).json()
    operations = {call["operationId"] for path in described["paths"].values() for call in path.values()}
    assert operations == OPERATIONS.keys() == CALLS.keys()
    for operation in sorted(operations):
        method, path = CALLS[operation]
        others = [permission for permission in Permission if permission is not OPERATIONS[operation]]
        narrow = await ingest.key(*others)
        for header, expected in [
            (None, (401, "key_missing")),
            ("Basic abc", (401, "key_missing")),
            ("Bearer wb_live_short", (401, "key_malformed")),
            ("Bearer eyJhbGciOiJIUzI1NiJ9.e30.x", (401, "key_malformed")),
            (f"Bearer {mint_key(Mode.LIVE)}", (401, "key_unknown")),
            (f"Bearer {narrow}", (403, "permission_missing")),
        ]:
            with subtests.test(operation=operation, header=header):
                async with httpx.AsyncClient(base_url=ingest.base_url) as client:
                    headers = {"Authorization": header} if header else {}
                    assert refusal(await client.request(method, path, headers=headers)) == expected
    assert await ingest.count("events") == 0


async def test_a_key_is_checked_before_the_body_is_looked_at(ingest: Ingest) -> None:
    async with httpx.AsyncClient(base_url=ingest.base_url) as client:
        assert refusal(await client.post(POST, content=b"nonsense")) == (401, "key_missing")


async def test_an_expired_key_is_refused_as_expired(ingest: Ingest) -> None:
    async with ingest.database.begin() as conn:
        past = datetime.now(UTC) - timedelta(seconds=1)
        key = await create_key(conn, ingest.scopes[Mode.LIVE], Mode.LIVE, list(Permission), past)
    answer = await ingest.live.post(POST, json=body(), headers={"Authorization": f"Bearer {key}"})
    assert refusal(answer) == (401, "key_expired")


async def test_a_revoked_key_is_refused_once_the_memory_of_it_has_faded(database: Database, scope_id: ScopeId) -> None:
    remembering = KeyRing(database, timedelta(seconds=2), remembered_for=timedelta(hours=1))
    forgetful = KeyRing(database, timedelta(seconds=2), remembered_for=timedelta())
    async with database.begin() as conn:
        key = await create_key(conn, scope_id, Mode.LIVE, list(Permission))
    for ring in (remembering, forgetful):
        assert (await ring.require(f"Bearer {key}", "get_metrics")).scope_id == scope_id
    async with database.hot() as pg:
        (listed,) = await list_keys(pg)
        assert await revoke_if_not_yet(pg, listed.key_id)
        assert not await revoke_if_not_yet(pg, listed.key_id)
    assert (await remembering.require(f"Bearer {key}", "get_metrics")).scope_id == scope_id
    with pytest.raises(Problem) as caught:
        await forgetful.require(f"Bearer {key}", "get_metrics")
    assert (caught.value.status, caught.value.code) == (401, "key_revoked")
    assert timedelta(seconds=5) > REMEMBERED_FOR


async def test_many_requests_at_once_with_a_new_key_are_all_let_in(database: Database, scope_id: ScopeId) -> None:
    async with database.begin() as conn:
        key = await create_key(conn, scope_id, Mode.LIVE, list(Permission))
    ring = KeyRing(database, timedelta(seconds=2))
    callers = await asyncio.gather(*(ring.require(f"bearer {key}", "get_metrics") for _ in range(100)))
    assert {caller.scope_id for caller in callers} == {scope_id}


async def test_only_the_hash_of_a_key_is_kept(database: Database, scope_id: ScopeId) -> None:
    async with database.begin() as conn:
        key = await create_key(conn, scope_id, Mode.LIVE, [Permission.EVENTS_READ])
    async with database.hot() as pg:
        found = await find_key(pg, hash_key(key))
        row = await pg.fetchrow("SELECT * FROM api_keys")
    assert found is not None
    assert (found.scope_id, set(found.permissions)) == (scope_id, {"events:read"})
    assert row is not None
    assert all(key[13:] not in str(value) for value in row.values())


async def test_the_last_use_is_written_down_and_never_moves_back(database: Database, scope_id: ScopeId) -> None:
    async with database.begin() as conn:
        key = await create_key(conn, scope_id, Mode.LIVE, [Permission.EVENTS_READ])
    late = datetime(2026, 12, 1, tzinfo=UTC)
    async with database.hot() as pg:
        found = await find_key(pg, hash_key(key))
        assert found is not None
        await note_uses(pg, {found.key_id: late, 999_999: late})
        await note_uses(pg, {found.key_id: late - timedelta(hours=1)})
        assert await pg.fetchval("SELECT last_used_at FROM api_keys") == late


async def test_a_request_leaves_a_trace_of_its_key_at_the_latest_when_the_process_ends(database: Database) -> None:
    async with running_ingest(database) as ingest:
        assert (await ingest.live.get("/api/v1/metrics")).status_code == 200
    async with database.hot() as pg:
        assert await pg.fetchval("SELECT count(*) FROM api_keys WHERE last_used_at IS NOT NULL") == 1


async def test_a_wrong_key_never_reaches_the_database() -> None:
    nowhere = Database("postgresql://nobody@127.0.0.1:1/nothing")
    ring = KeyRing(nowhere, timedelta(seconds=1))
    with pytest.raises(Problem) as caught:
        await ring.require(f"Bearer {mint_key(Mode.LIVE)[:-1]}", "get_metrics")
    assert caught.value.code == "key_malformed"
    await nowhere.close()
