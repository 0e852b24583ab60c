"""An event type whose addressee is fixed in the tenant's file: the event must not name one."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from shared.recipient import Recipient
from shared.store.database import Database
from tests.fakes.ingest import Ingest, body, running_ingest, tenant_model

OWNER = Recipient("owner", "Olga", "olga@campus.example")


@pytest.fixture
async def ingest(database: Database) -> AsyncIterator[Ingest]:
    async with running_ingest(database) as running:
        tenant = tenant_model()
        form = replace(tenant.event_types["booking_confirmed"], id="contact_form", to=OWNER)
        await running.apply(replace(tenant, event_types=tenant.event_types | {"contact_form": form}))
        yield running


def form(**changes: Any) -> dict[str, Any]:
    """A contact form that is accepted, with ``changes``."""
    return {"event_type": "contact_form", "idempotency_key": "key-1", "payload": {"course": "Algebra"}} | changes


@pytest.mark.parametrize("absent", [{}, {"recipient": None}])
async def test_it_goes_to_the_addressee_of_the_file(ingest: Ingest, absent: dict[str, Any]) -> None:
    answer = await ingest.live.post("/api/v1/events", json=form(**absent))
    assert answer.status_code == 202, answer.text
    found = (await ingest.live.get(answer.headers["Location"])).json()
    assert found["recipient"] == {"id": "owner", "name": "Olga", "email": "olga@campus.example"}
    again = await ingest.live.post("/api/v1/events", json=form())
    assert (again.json()["id"], again.headers["Idempotent-Replayed"]) == (answer.json()["id"], "true")


@pytest.mark.parametrize("recipient", [{"id": "bob"}, {}, "bob"])
async def test_a_recipient_in_the_event_is_refused(ingest: Ingest, recipient: object) -> None:
    answer = await ingest.live.post("/api/v1/events", json=form(recipient=recipient))
    assert answer.status_code == 422
    assert ("/recipient", "recipient_fixed") in {(each["pointer"], each["code"]) for each in answer.json()["errors"]}
    assert await ingest.count("events") == 0


async def test_where_the_file_names_nobody_the_event_must(ingest: Ingest) -> None:
    for absent in ({"recipient": None}, {}):
        posted = {name: value for name, value in body().items() if name != "recipient"} | absent
        answer = await ingest.live.post("/api/v1/events", json=posted)
        assert answer.status_code == 422
        (error,) = answer.json()["errors"]
        assert (error["pointer"], error["code"]) == ("/recipient", "missing")
