"""Suppressions over HTTP, and receipts beside the job they are about."""

from collections.abc import AsyncIterator

import httpx
import pytest

from shared.ids import parse_event_id
from shared.keys import Permission
from shared.store.database import Database
from shared.store.receipts import NewReceipt, ReceiptSource, apply_ripe, keep_if_new
from shared.tenant import Mode
from tests.factories import claim_jobs, create_jobs, new_job
from tests.fakes.ingest import Ingest, body, running_ingest
from tests.integration.test_receipts import deliver

PATH = "/api/v1/suppressions"


@pytest.fixture
async def ingest(database: Database) -> AsyncIterator[Ingest]:
    async with running_ingest(database) as running:
        yield running


async def addresses(client: httpx.AsyncClient, **parameters: str) -> list[str]:
    answer = await client.get(PATH, params=parameters)
    assert answer.status_code == 200, answer.text
    return [one["address"] for one in answer.json()["data"]]


async def test_an_address_is_suppressed_listed_and_written_to_again(ingest: Ingest) -> None:
    answer = await ingest.live.post(PATH, json={"address": "Bob+news@Example.com", "detail": "asked by phone"})
    assert answer.status_code == 200
    assert answer.json() | {"created_at": ""} == {
        "channel": "email",
        "address": "bob+news@example.com",
        "reason": "manual",
        "source": "api",
        "code": None,
        "detail": "asked by phone",
        "created_at": "",
    }
    assert await addresses(ingest.live) == ["bob+news@example.com"]
    assert await addresses(ingest.test) == []
    assert (await ingest.test.delete(f"{PATH}/bob%2Bnews@example.com")).status_code == 404
    assert (await ingest.live.delete(f"{PATH}/BOB%2Bnews@example.com")).status_code == 204
    assert (await ingest.live.delete(f"{PATH}/bob%2Bnews@example.com")).status_code == 404
    assert await addresses(ingest.live) == []


@pytest.mark.parametrize("path", ["sales/emea@example.com", "sales%2Femea%40example.com"])
async def test_an_address_with_a_slash_in_it_is_written_to_again(ingest: Ingest, path: str) -> None:
    await ingest.live.post(PATH, json={"address": "sales/emea@example.com"})
    assert (await ingest.live.delete(f"{PATH}/{path}")).status_code == 204
    assert await addresses(ingest.live) == []


async def test_lists_are_paged_and_narrowed(ingest: Ingest) -> None:
    for number in range(5):
        await ingest.live.post(PATH, json={"address": f"p{number}@b.example"})
    first = (await ingest.live.get(f"{PATH}?limit=2")).json()
    second = (await ingest.live.get(PATH, params={"limit": "3", "cursor": first["next_cursor"]})).json()
    assert [one["address"][:2] for one in first["data"] + second["data"]] == ["p4", "p3", "p2", "p1", "p0"]
    assert second["next_cursor"] is None
    assert await addresses(ingest.live, address="P3@b.example") == ["p3@b.example"]
    assert await addresses(ingest.live, reason="complaint") == []
    assert (await ingest.live.get(f"{PATH}?reason=sad")).status_code == 422


@pytest.mark.parametrize(
    ("sent", "pointers"),
    [
        ({}, "/address"),
        ({"address": "nobody"}, "/address"),
        ({"address": "a@b.example", "adress": 1}, "/adress"),
        ({"address": "a@b.example", "detail": "x" * 501}, "/detail"),
        ({"address": 7}, "/address"),
        ({"address": "nobody", "detial": "x"}, "/detial /address"),
    ],
)
async def test_what_is_no_suppression_is_refused_by_all_its_fields(
    ingest: Ingest, sent: dict[str, object], pointers: str
) -> None:
    answer = await ingest.live.post(PATH, json=sent)
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == pointers.split()


async def test_a_key_needs_the_permission(ingest: Ingest) -> None:
    reading = {"Authorization": f"Bearer {await ingest.key(Permission.SUPPRESSIONS_READ)}"}
    assert (await ingest.live.get(PATH, headers=reading)).status_code == 200
    assert (await ingest.live.post(PATH, json={"address": "a@b.example"}, headers=reading)).status_code == 403
    events = {"Authorization": f"Bearer {await ingest.key(Permission.EVENTS_READ)}"}
    assert (await ingest.live.get(PATH, headers=events)).status_code == 403


async def test_an_event_tells_the_receipts_of_its_mail(ingest: Ingest) -> None:
    posted = (await ingest.live.post("/api/v1/events", json=body())).json()
    event_id = parse_event_id(posted["id"])
    assert event_id is not None
    scope_id = ingest.scopes[Mode.LIVE]
    await create_jobs(ingest.database, [new_job(event_id=event_id, scope_id=scope_id)])
    (claim,) = await claim_jobs(ingest.database, scopes=(scope_id,))
    await deliver(ingest.database, claim)
    new = NewReceipt(
        event_id, ReceiptSource.FILE, "<1@x>", "bob@example.com", "permanent-recipient", "5.1.1", "550 no such user"
    )
    async with ingest.database.hot() as pg:
        await keep_if_new(pg, new)
        await apply_ripe(pg, 10)
    shown = (await ingest.live.get(f"/api/v1/events/{posted['id']}")).json()
    (job,) = shown["jobs"]
    assert (job["status"], job["reason"]) == ("FAILED", "bounced")
    (receipt,) = job["receipts"]
    assert (receipt["kind"], receipt["code"], receipt["effect"]) == ("bounce", "5.1.1", "bounced_suppressed")
    assert await addresses(ingest.live) == ["bob@example.com"]
