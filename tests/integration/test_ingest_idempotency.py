"""One key, one event: replayed, reused, raced for, and remembered when the schema has moved on."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from shared.store.database import Database
from tests.fakes.ingest import SCHEMA, Ingest, body, running_ingest, tenant_model


@pytest.fixture
async def ingest(database: Database) -> AsyncIterator[Ingest]:
    async with running_ingest(database) as running:
        yield running


async def post(ingest: Ingest, content: dict[str, Any] | str, **headers: str) -> httpx.Response:
    raw = content if isinstance(content, str) else json.dumps(content)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return await ingest.live.post("/api/v1/events", content=raw, headers={"Content-Type": "application/json"} | headers)


def is_reused(answer: httpx.Response) -> bool:
    return answer.status_code == 422 and answer.json()["code"] == "idempotency_key_reused"


async def test_the_same_body_again_is_answered_with_the_event_as_it_is_now(ingest: Ingest) -> None:
    first = await post(ingest, body())
    async with ingest.database.hot() as pg:
        await pg.execute("UPDATE events SET status = 'ROUTED', routed_at = now()")
    again = await post(ingest, body())
    assert again.status_code == 202
    assert again.json()["id"] == first.json()["id"]
    assert again.json()["status"] == "ROUTED"
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert await ingest.count("events") == 1
    async with ingest.database.hot() as pg:
        assert await pg.fetchval("SELECT sum(n) FROM ledger") == 1


@pytest.mark.parametrize(
    "same",
    [
        {"ref": None, "send_at": None, "expires_at": "2027-01-01T13:00:00+01:00"},
        {"expires_at": "2027-01-01T12:00:00.000Z"},
        {"recipient": {"locale": "en", "id": "bob", "name": None, "email": "bob@example.com"}},
    ],
)
async def test_nulls_offsets_and_order_make_no_difference(ingest: Ingest, same: dict[str, Any]) -> None:
    first = await post(ingest, body(expires_at="2027-01-01T12:00:00Z"))
    assert first.status_code == 202, first.text
    again = await post(ingest, body(expires_at="2027-01-01T12:00:00Z") | same)
    assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])


@pytest.mark.parametrize(
    "other",
    [
        {"payload": {"course": "Analysis"}},
        {"recipient": {"id": "alice"}},
        {"ref": "booking:1"},
        {"send_at": "2026-12-24T00:00:00Z"},
        {"payload": {"course": "Algebra", "tags": [None]}},
    ],
)
async def test_another_body_under_the_same_key_is_refused(ingest: Ingest, other: dict[str, Any]) -> None:
    first = await post(ingest, body())
    answer = await post(ingest, body(**other))
    assert is_reused(answer)
    assert first.json()["id"] in answer.json()["detail"]
    assert await ingest.count("events") == 1


@pytest.mark.parametrize(("one", "other"), [("1", "1.0"), ("1.0", "1.00"), ("[null]", "[]"), ('{"a":null}', "{}")])
async def test_a_payload_counts_as_it_was_written(ingest: Ingest, one: str, other: str) -> None:
    bodies = [json.dumps(body()).replace('"Algebra"', f'"Algebra", "tags": [{value}]') for value in (one, other)]
    assert (await post(ingest, bodies[0])).status_code == 202
    assert is_reused(await post(ingest, bodies[1]))
    assert (await post(ingest, bodies[0])).headers["Idempotent-Replayed"] == "true"


async def test_the_key_may_stand_in_the_header_in_the_body_or_in_both(ingest: Ingest) -> None:
    without = {name: value for name, value in body().items() if name != "idempotency_key"}
    first = await post(ingest, without, Idempotency_Key="key-1")
    assert first.status_code == 202
    for again in (await post(ingest, body()), await post(ingest, body(), Idempotency_Key="key-1")):
        assert (again.status_code, again.json()["id"]) == (202, first.json()["id"])


async def test_of_twenty_posts_at_once_one_wins_and_all_get_its_id(ingest: Ingest) -> None:
    answers = await asyncio.gather(*(post(ingest, body()) for _ in range(20)))
    assert [answer.status_code for answer in answers] == [202] * 20
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("Idempotent-Replayed" not in answer.headers for answer in answers) == 1
    assert await ingest.count("events") == 1


async def test_of_two_different_bodies_at_once_exactly_one_is_accepted(ingest: Ingest) -> None:
    bodies = [body(payload={"course": f"Course {n}"}) for n in range(8)]
    answers = await asyncio.gather(*(post(ingest, content) for content in bodies))
    assert sorted(answer.status_code for answer in answers) == [202] + [422] * 7
    assert sum(is_reused(answer) for answer in answers) == 7
    assert await ingest.count("events") == 1


async def test_an_event_is_remembered_when_its_schema_has_moved_on(ingest: Ingest) -> None:
    first = await post(ingest, body())
    await ingest.apply(tenant_model(SCHEMA | {"required": ["course", "tutor"]}))
    replayed = await post(ingest, body())
    assert (replayed.status_code, replayed.json()["id"]) == (202, first.json()["id"])
    assert replayed.headers["Idempotent-Replayed"] == "true"
    assert is_reused(await post(ingest, body(payload={"course": "Analysis"})))
    refused = await post(ingest, body(idempotency_key="key-2"))
    assert (refused.status_code, refused.json()["code"]) == (422, "validation_failed")


async def test_a_mistake_beside_a_known_key_never_passes_for_a_replay(ingest: Ingest) -> None:
    assert (await post(ingest, body())).status_code == 202
    for wrong in (body(unknown=1), body(unknown=None), body(recipient={"id": "bob", "nick": None})):
        assert is_reused(await post(ingest, wrong))


async def test_a_refused_body_leaves_its_key_free(ingest: Ingest) -> None:
    assert (await post(ingest, body(payload={}))).status_code == 422
    assert (await post(ingest, body())).status_code == 202
