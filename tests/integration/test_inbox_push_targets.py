"""An end user registers the browser they sit at, under their own token, and nobody else's."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest

from services.cli.sender import vapid_key
from services.inapp.api import build_api
from services.inapp.demo import demo_pages
from shared.ids import ScopeId
from shared.metrics import REGISTRY
from shared.sealing import Sealer, new_master_key, parse_master_keys
from shared.store.database import Database
from shared.store.targets import MOST_TARGETS, StoredTarget, list_targets
from shared.store.tenants import create_if_missing_and_lock, create_missing_scopes, scopes_of
from shared.tenant import Mode
from shared.web.tokens import mint_subscriber_token
from tests.fakes.webpush import Browser

PATH = "/api/v1/inbox/push-targets"
SECRET = b"a scope's secret".ljust(64, b".")
BROWSER = Browser("https://updates.push.services.mozilla.com/wpush/v2/gAAAAAB")


@dataclass
class Inbox:
    """The API of one tenant, whose scope's secret is known."""

    api: httpx.AsyncClient
    database: Database
    sealer: Sealer
    scope_id: ScopeId

    async def ask(self, method: str, path: str = PATH, body: object = None, recipient: str = "bob") -> httpx.Response:
        """One request with the recipient's token."""
        token = mint_subscriber_token(SECRET, self.scope_id, recipient)
        headers = {"Authorization": f"Bearer {token}"}
        return await self.api.request(method, path, json=body, headers=headers)

    async def targets(self, recipient: str = "bob") -> list[StoredTarget]:
        """What is stored for a recipient."""
        async with self.database.begin() as connection:
            return await list_targets(connection, self.scope_id, recipient)


@pytest.fixture
async def inbox(database: Database) -> AsyncIterator[Inbox]:
    sealer = Sealer(parse_master_keys(new_master_key()))
    async with database.begin() as connection:
        tenant = await create_if_missing_and_lock(connection, "campus", "Campus")
        await create_missing_scopes(
            connection, tenant.tenant_id, lambda scope_id: sealer.seal(SECRET, f"scope:{scope_id}")
        )
        scope_id = (await scopes_of(connection, "campus"))[Mode.LIVE].scope_id
    transport = httpx.ASGITransport(build_api(database, sealer, pages=demo_pages()))  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://inbox.test") as api:
        yield Inbox(api, database, sealer, scope_id)


async def test_a_browser_subscribes_with_the_tenants_key_and_is_the_token_holders(inbox: Inbox) -> None:
    assert (await inbox.ask("GET", "/api/v1/inbox/push-key")).status_code == 404
    key, made = await vapid_key(inbox.database, inbox.sealer, "campus")
    assert made
    assert (await inbox.ask("GET", "/api/v1/inbox/push-key")).json() == {"public_key": key.public}
    again, made = await vapid_key(inbox.database, inbox.sealer, "campus")
    assert (again.public, made) == (key.public, False)
    answer = await inbox.ask("PUT", body=BROWSER.as_json())
    assert answer.status_code == 200, answer.text
    assert (await inbox.ask("GET")).json() == {"data": [answer.json()], "next_cursor": None}
    assert [target.token for target in await inbox.targets()] == [BROWSER.endpoint]
    moved = await inbox.ask("PUT", body=BROWSER.as_json(), recipient="carol")
    assert moved.json()["id"] == answer.json()["id"]
    assert await inbox.targets() == []
    assert len(await inbox.targets("carol")) == 1


async def test_it_is_taken_back_by_its_endpoint_or_its_id_by_its_owner_alone(inbox: Inbox) -> None:
    target_id = (await inbox.ask("PUT", body=BROWSER.as_json())).json()["id"]
    assert (await inbox.ask("DELETE", f"{PATH}/{target_id}", recipient="carol")).status_code == 404
    assert (await inbox.ask("DELETE", body={"endpoint": BROWSER.endpoint}, recipient="carol")).status_code == 404
    assert (await inbox.ask("DELETE", body={"endpoint": BROWSER.endpoint})).status_code == 204
    assert (await inbox.ask("DELETE", body={"endpoint": BROWSER.endpoint})).status_code == 404
    target_id = (await inbox.ask("PUT", body=BROWSER.as_json())).json()["id"]
    assert (await inbox.ask("DELETE", f"{PATH}/{target_id}")).status_code == 204
    assert await inbox.targets() == []


async def test_what_goes_is_counted(inbox: Inbox) -> None:
    def removed(why: str) -> float:
        return REGISTRY.get_sample_value("waybill_push_targets_removed_total", {"why": why}) or 0.0

    too_many, asked = removed("too_many"), removed("asked")
    for number in range(MOST_TARGETS + 1):
        browser = Browser(f"{BROWSER.endpoint}{number}")
        assert (await inbox.ask("PUT", body=browser.as_json())).status_code == 200
    assert len(await inbox.targets()) == MOST_TARGETS
    await inbox.ask("DELETE", body={"endpoint": f"{BROWSER.endpoint}7"})
    assert (removed("too_many") - too_many, removed("asked") - asked) == (1, 1)


@pytest.mark.parametrize(
    "endpoint", ["https://169.254.169.254/latest", "http://web.push.apple.com/a", "https://evil.example/a"]
)
async def test_an_endpoint_elsewhere_is_not_taken(inbox: Inbox, endpoint: str) -> None:
    answer = await inbox.ask("PUT", body=Browser(endpoint).as_json())
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/endpoint"]
    assert await inbox.targets() == []


async def test_without_a_token_nothing_is_told_or_taken(inbox: Inbox) -> None:
    for method, path in (("GET", PATH), ("PUT", PATH), ("DELETE", PATH), ("GET", "/api/v1/inbox/push-key")):
        assert (await inbox.api.request(method, path, json=BROWSER.as_json())).status_code == 401
    assert await inbox.targets() == []


async def test_the_demo_page_brings_its_worker_and_lets_nothing_foreign_in(inbox: Inbox) -> None:
    page = await inbox.api.get("/push-demo")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    for name in ("page.css", "page.js"):
        assert f"/push-demo/{name}" in page.text
        assert (await inbox.api.get(f"/push-demo/{name}")).status_code == 200
    worker = await inbox.api.get("/push-demo/sw.js")
    assert worker.headers["content-type"].startswith("text/javascript")
    assert worker.headers["service-worker-allowed"] == "/push-demo"
    assert "showNotification" in worker.text
