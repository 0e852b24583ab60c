"""Two tenants at the same moment: each speaks in its own name, through its own relay, and waits for nobody else's."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.installation import CAMPUS, Installation, installed
from tests.fakes.product import eventually
from tests.fakes.smtp import SmtpSink
from tests.fakes.smtp_script import Stall

PORTFOLIO = CAMPUS.parents[1] / "portfolio" / "portfolio.yaml"
VISIT: dict[str, Any] = {
    "event_type": "contact_form",
    "idempotency_key": "visit-1",
    "payload": {"name": "Tom Baker", "email": "tom@visitor.example", "message": "Do you have time in spring?"},
}


@dataclass(frozen=True)
class Both:
    """An installation with the campus on the platform's relay, and the portfolio on ``relay``, its own."""

    installation: Installation
    relay: SmtpSink
    portfolio: httpx.AsyncClient

    async def visit(self, **changes: Any) -> httpx.Response:
        """The answer to one contact form."""
        return await self.portfolio.post("/api/v1/events", json=VISIT | changes)


@pytest.fixture
async def both(database_url: str, tmp_path: Path) -> AsyncIterator[Both]:
    async with AsyncExitStack() as stack:
        relay = await SmtpSink(login=("ines", "secret")).start()
        stack.push_async_callback(relay.close)
        installation = await stack.enter_async_context(installed(database_url, None, tmp_path, "all"))
        installation.credentials["PORTFOLIO_SMTP_URL"] = f"smtp://ines:secret@127.0.0.1:{relay.port}"
        await installation.command("apply", str(PORTFOLIO))
        key = json.loads(await installation.command("key", "create", "portfolio", "--json"))["key"]
        client = httpx.AsyncClient(
            base_url=installation.client.base_url, headers={"Authorization": f"Bearer {key}"}, timeout=15
        )
        both = Both(installation, relay, await stack.enter_async_context(client))

        async def known() -> bool:
            return (await both.visit(event_type="nothing")).status_code == 422

        await eventually(known)
        yield both


async def test_a_contact_form_and_a_booking_go_out_together_each_in_its_tenants_name(both: Both) -> None:
    answers = await asyncio.gather(both.visit(), both.installation.post())
    assert [answer.status_code for answer in answers] == [202, 202], answers[0].text
    (form,), (booking,) = await asyncio.gather(both.relay.wait_for_mails(1), both.installation.sink.wait_for_mails(1))

    assert form.message["From"] == '"Contact form of ines.example" <form@ines.example>'
    assert (form.envelope_to, form.message["To"]) == (("ines@ines.example",), "Ines Okafor <ines@ines.example>")
    assert form.message["Reply-To"] == "tom@visitor.example"
    assert form.message["Subject"] == "Contact form: Tom Baker"

    assert booking.message["From"] == "CampusCritique <hello@campus.example>"
    assert booking.envelope_to == ("bob@example.com",)
    assert booking.message["Reply-To"] == "help@campus.example"


async def test_neither_waits_for_the_others_relay(both: Both) -> None:
    both.installation.sink.script.always("eod", Stall())
    await both.installation.post()
    await both.installation.sink.wait_for_mails(1)
    await both.visit()
    (form,) = await both.relay.wait_for_mails(1)
    assert form.message["Reply-To"] == "tom@visitor.example"


async def test_a_contact_form_that_names_a_recipient_or_no_address_is_refused(both: Both) -> None:
    for changes, pointer in [
        ({"recipient": {"id": "eve", "email": "eve@evil.example"}}, "/recipient"),
        ({"payload": VISIT["payload"] | {"email": "tom at visitor"}}, "/payload/email"),
        ({"payload": VISIT["payload"] | {"email": "tom@visitor.example\r\nBcc: eve@evil.example"}}, "/payload/email"),
    ]:
        answer = await both.visit(**changes)
        assert answer.status_code == 422
        assert {error["pointer"] for error in answer.json()["errors"]} == {pointer}
    assert both.relay.mails == []
