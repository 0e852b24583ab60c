"""The push demo in a real browser: it subscribes, and its service worker shows what is pushed."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from deploy.chromium import Chromium
from services.cli.sender import vapid_key
from services.inapp.api import build_api
from services.inapp.demo import demo_pages
from services.push.message import Letter
from services.push.webpush import write_payload
from shared.content import Link, PushContent
from shared.ids import ScopeId
from shared.lifecycle import run_parts
from shared.sealing import Sealer, new_master_key, parse_master_keys
from shared.store.database import Database
from shared.store.targets import list_targets
from shared.store.tenants import create_if_missing_and_lock, create_missing_scopes, scopes_of
from shared.tenant import Mode
from shared.web.server import http_part
from shared.web.tokens import mint_subscriber_token
from tests.factories import until
from tests.fakes.chromium import Page, chromium
from tests.fakes.webpush import Browser

SECRET = b"a scope's secret".ljust(64, b".")
SUBSCRIPTION = Browser("https://updates.push.services.mozilla.com/wpush/v2/gAAAAAB").as_json()
CONTENT = PushContent("Größe & <b>Algebra</b>", "Tue 1 Dec, 15:00", "en", Link("https://campus.example/b", "See"))


# The browsers' push networks are not reached from tests: what one would answer is put in their place.
STAND_IN = """
  let made = null;
  const subscription = %s;
  PushManager.prototype.subscribe = async (options) => {
    if (options.applicationServerKey.length !== 87 || !options.userVisibleOnly) throw new Error("no key");
    return (made = { ...subscription, toJSON: () => subscription, unsubscribe: async () => (made = null) });
  };
  PushManager.prototype.getSubscription = async () => made;
  true
"""


@dataclass
class Demo:
    """The page in a browser, with what stands behind it."""

    page: Page
    origin: str
    database: Database
    scope_id: ScopeId

    async def endpoints(self) -> list[str]:
        """Where bob is reached now."""
        async with self.database.begin() as connection:
            return [target.token for target in await list_targets(connection, self.scope_id, "bob")]

    async def push(self, payload: bytes) -> None:
        """Have the browser receive ``payload`` as if its push network had brought it."""
        registration = next(
            found["registrationId"]
            for event in reversed(self.page.events)
            if event.get("method") == "ServiceWorker.workerRegistrationUpdated"
            for found in event["params"]["registrations"]
            if found["scopeURL"] == f"{self.origin}/push-demo"
        )
        await self.page.call(
            "ServiceWorker.deliverPushMessage", origin=self.origin, registrationId=registration, data=payload.decode()
        )

    async def shown(self, count: int) -> list[tuple[str, str, str]]:
        """Tag, title and body of all that the browser displayed, by its own log, once ``count`` pushes are through."""
        await until(lambda: len(self._logged("Push event completed")) == count)
        return [
            (one["instanceId"], *(field["value"] for field in sorted(one["eventMetadata"], key=_title_first)))
            for one in self._logged("Notification displayed")
        ]

    def _logged(self, name: str) -> list[dict[str, Any]]:
        logged = (
            event["params"]["backgroundServiceEvent"]
            for event in self.page.events
            if event.get("method") == "BackgroundService.backgroundServiceEventReceived"
        )
        return [one for one in logged if one["eventName"] == name]


def _title_first(field: dict[str, str]) -> int:
    return ("Title", "Body").index(field["key"])


@pytest.fixture
async def demo(database: Database, browser: Chromium) -> AsyncIterator[Demo]:
    sealer = Sealer(parse_master_keys(new_master_key()))
    async with database.begin() as connection:
        tenant = await create_if_missing_and_lock(connection, "campus", "Campus")
        await create_missing_scopes(connection, tenant.tenant_id, lambda one: sealer.seal(SECRET, f"scope:{one}"))
        scope_id = (await scopes_of(connection, "campus"))[Mode.LIVE].scope_id
    await vapid_key(database, sealer, "campus")
    part = http_part("inapp-http", build_api(database, sealer, pages=demo_pages()), "127.0.0.1", 0)
    stop = asyncio.Event()
    serving = asyncio.create_task(run_parts([part], stop))
    await part.answering.wait()
    origin = f"http://127.0.0.1:{part.port}"
    try:
        async with chromium(browser) as page:
            await page.call("Browser.grantPermissions", origin=origin, permissions=["notifications"])
            await page.open(f"{origin}/push-demo#{mint_subscriber_token(SECRET, scope_id, 'bob')}")
            yield Demo(page, origin, database, scope_id)
    finally:
        stop.set()
        await serving


async def test_the_button_registers_this_browser_and_takes_it_back(demo: Demo, tmp_path: Path) -> None:
    page = demo.page
    await page.until("document.querySelector('#subscribe')?.disabled === false")
    await page.run(STAND_IN % json.dumps(SUBSCRIPTION))
    await page.run("document.querySelector('#subscribe').click()")
    await page.until("document.querySelector('#state').dataset.kind === 'good'")
    assert await demo.endpoints() == [SUBSCRIPTION["endpoint"]]
    assert await page.run("document.querySelectorAll('#targets li').length") == 1
    assert await page.run("document.documentElement.scrollWidth <= 390")
    await page.run("document.querySelector('#subscribe').click()")
    await page.until("document.querySelector('#subscribe').textContent === 'Notify me here'")
    assert await demo.endpoints() == []


async def test_a_push_service_that_never_answers_is_told_and_the_button_comes_back(demo: Demo) -> None:
    page = demo.page
    await page.until("document.querySelector('#subscribe')?.disabled === false")
    # The page's patience, without its waiting.
    await page.run(
        "{ const wait = setTimeout; window.setTimeout = (what, _, ...given) => wait(what, 0, ...given); } true"
    )
    await page.run("PushManager.prototype.subscribe = () => new Promise(() => {}); true")
    await page.run("document.querySelector('#subscribe').click()")
    await page.until("document.querySelector('#state').dataset.kind === 'bad'")
    assert "does not answer" in await page.run("document.querySelector('#state').textContent")
    await page.until("document.querySelector('#subscribe').disabled === false")
    assert await demo.endpoints() == []


async def test_the_worker_shows_what_was_pushed_and_a_repeat_in_its_place(demo: Demo) -> None:
    page = demo.page
    await page.until("document.querySelector('#subscribe')?.disabled === false")
    await page.run(
        "navigator.serviceWorker.register('/push-demo/sw.js', {scope: '/push-demo'})"
        ".then(() => navigator.serviceWorker.ready).then(() => true)"
    )
    for service in ("notifications", "pushMessaging"):
        await page.call("BackgroundService.startObserving", service=service)
        await page.call("BackgroundService.setRecording", shouldRecord=True, service=service)
    first, other = Letter(CONTENT, uuid4(), 3), Letter(CONTENT, uuid4(), 4)
    again = replace(first, content=replace(CONTENT, body="Moved to 16:00"))
    for count, letter in enumerate((first, again, other), start=1):
        await demo.push(write_payload(letter))
        shown = await demo.shown(count)
    # The second has the first one's tag, and so takes its place.
    assert shown == [
        (first.stable_id.hex, CONTENT.title, CONTENT.body),
        (first.stable_id.hex, CONTENT.title, "Moved to 16:00"),
        (other.stable_id.hex, CONTENT.title, CONTENT.body),
    ]


async def test_an_address_without_a_token_says_what_is_missing(demo: Demo) -> None:
    await demo.page.open(f"{demo.origin}/push-demo")
    await demo.page.until("document.querySelector('#state')?.dataset.kind === 'bad'")
    assert "token" in await demo.page.run("document.querySelector('#state').textContent")
    assert await demo.page.run("document.querySelector('#subscribe').disabled")
