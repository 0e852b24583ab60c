"""Push targets over HTTP: registered, listed, removed, and nobody else's business."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest
from litestar import Router

from services.ingest.targets import target_routes
from shared.endpoint import EndpointRules
from shared.keys import Permission
from shared.lifecycle import run_parts
from shared.store.database import Database
from shared.store.keys import create_key
from shared.store.targets import MOST_TARGETS, list_targets
from shared.tenant import Mode
from shared.web.app import make_app
from shared.web.auth import KeyRing, guarded
from shared.web.server import http_part
from tests.fakes.ingest import apply_model, tenant_model
from tests.fakes.webpush import Browser

BROWSER = Browser("https://updates.push.services.mozilla.com/wpush/v2/gAAAAAB").as_json()
SWAPPED = {"p256dh": BROWSER["keys"]["auth"], "auth": BROWSER["keys"]["p256dh"]}
OFF_THE_CURVE = {**BROWSER["keys"], "p256dh": "BA" + "A" * 85}
BOBS = "/api/v1/recipients/bob/push-targets"
CAROLS = "/api/v1/recipients/carol/push-targets"


@dataclass
class Api:
    """The running routes, with clients of the live and the test half."""

    database: Database
    live: httpx.AsyncClient
    test: httpx.AsyncClient
    powerless: httpx.AsyncClient

    async def put(self, path: str = BOBS, **body: Any) -> httpx.Response:
        """The answer to one registration in the live half."""
        return await self.live.put(path, json={"token": "a"} | body)


@asynccontextmanager
async def running(database: Database) -> AsyncIterator[Api]:
    scopes = await apply_model(database, tenant_model())
    within = timedelta(seconds=2)
    keys = KeyRing(database, within)
    router = Router("/api/v1", route_handlers=guarded(keys, target_routes(database, EndpointRules(), within)))
    stop = asyncio.Event()
    part = http_part("targets", make_app([router], "Waybill", "/api/v1"), "127.0.0.1", 0)
    serving = asyncio.create_task(run_parts([part], stop))
    async with asyncio.timeout(20):
        await part.answering.wait()

    async def client(mode: Mode, *permissions: Permission) -> httpx.AsyncClient:
        async with database.begin() as connection:
            key = await create_key(connection, scopes[mode], mode, permissions)
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{part.port}", headers={"Authorization": f"Bearer {key}"}, timeout=20
        )

    live, test = await client(Mode.LIVE, *Permission), await client(Mode.TEST, *Permission)
    powerless = await client(Mode.LIVE, Permission.EVENTS_WRITE)
    async with live, test, powerless:
        try:
            yield Api(database, live, test, powerless)
        finally:
            stop.set()
            await serving


@pytest.fixture
async def api(database: Database) -> AsyncIterator[Api]:
    async with running(database) as ready:
        yield ready


async def ids(client: httpx.AsyncClient, path: str = BOBS) -> list[str]:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.json()["next_cursor"] is None
    return [target["id"] for target in answer.json()["data"]]


async def test_a_target_is_registered_listed_and_removed_without_its_token_being_told(api: Api) -> None:
    answer = await api.put(token="fcm:token-1", kind="fcm", platform="android", app="campus-app")
    assert answer.status_code == 200, answer.text
    target = answer.json()
    assert {name: target[name] for name in ("kind", "platform", "app", "last_used_at")} == {
        "kind": "fcm",
        "platform": "android",
        "app": "campus-app",
        "last_used_at": None,
    }
    listed = await api.live.get(BOBS)
    assert listed.json() == {"data": [target], "next_cursor": None}
    assert "token-1" not in listed.text + answer.text
    gone = await api.live.request("DELETE", BOBS, json={"token": "fcm:token-1"})
    assert (gone.status_code, gone.content) == (204, b"")
    assert await ids(api.live) == []
    assert (await api.live.request("DELETE", BOBS, json={"token": "fcm:token-1"})).status_code == 404


async def test_a_browser_is_registered_as_it_writes_its_subscription_itself(api: Api) -> None:
    answer = await api.live.put(BOBS, json=BROWSER)
    assert answer.status_code == 200, answer.text
    target = answer.json()
    assert (target["kind"], target["platform"]) == ("webpush", "web")
    assert "mozilla" not in answer.text
    padded = {name: key + "=" * (-len(key) % 4) for name, key in BROWSER["keys"].items()}
    again = await api.live.put(CAROLS, json={**BROWSER, "keys": padded, "app": "shop"})
    assert again.json()["id"] == target["id"]
    assert (await ids(api.live, BOBS), await ids(api.live, CAROLS)) == ([], [target["id"]])
    gone = await api.live.request("DELETE", CAROLS, json={"endpoint": BROWSER["endpoint"]})
    assert gone.status_code == 204
    assert await ids(api.live, CAROLS) == []


async def test_a_target_is_removed_by_its_id_for_its_own_recipient_only(api: Api) -> None:
    target_id = (await api.put()).json()["id"]
    assert (await api.live.delete(f"{CAROLS}/{target_id}")).status_code == 404
    assert (await api.live.delete(f"{BOBS}/{target_id}")).status_code == 204
    assert (await api.live.delete(f"{BOBS}/{target_id}")).status_code == 404


async def test_registering_again_says_that_it_is_in_use_and_moves_it_to_its_new_owner(api: Api) -> None:
    first, again = (await api.put()).json(), (await api.put()).json()
    assert again["id"] == first["id"]
    assert again["registered_at"] > first["registered_at"]
    moved = (await api.put(CAROLS)).json()
    assert moved["id"] == first["id"]
    assert (await ids(api.live, BOBS), await ids(api.live, CAROLS)) == ([], [first["id"]])


async def test_a_recipient_has_twenty_targets_at_most(api: Api) -> None:
    made = [(await api.put(token=f"token-{n}")).json()["id"] for n in range(MOST_TARGETS + 1)]
    assert await ids(api.live) == list(reversed(made[1:]))


async def test_the_halves_of_a_tenant_do_not_see_each_others_targets(api: Api) -> None:
    target_id = (await api.put()).json()["id"]
    assert await ids(api.test) == []
    assert (await api.test.delete(f"{BOBS}/{target_id}")).status_code == 404
    assert (await api.test.request("DELETE", BOBS, json={"token": "a"})).status_code == 404
    assert await ids(api.live) == [target_id]


async def test_a_recipients_id_may_be_anything_that_an_event_may_name(api: Api) -> None:
    assert (await api.put("/api/v1/recipients/b%C3%B6b%20%3A1/push-targets")).status_code == 200
    (stored,) = await _stored(api, "böb :1")
    assert stored == "a"


async def test_a_recipient_may_have_a_slash_in_its_id(api: Api) -> None:
    path = "/api/v1/recipients/team%2F7%252f/push-targets"
    target = (await api.put(path, token="fcm:token-1")).json()
    assert await _stored(api, "team/7%2f") == ["fcm:token-1"]
    assert await ids(api.live, path) == [target["id"]]
    assert (await api.live.get("/api/v1/recipients/team/7%252f/push-targets")).status_code == 404
    assert (await api.live.delete(f"{path}/{target['id']}")).status_code == 204


async def _stored(api: Api, recipient_id: str) -> list[str]:
    async with api.database.hot() as pg:
        scope_id = await pg.fetchval("SELECT scope_id FROM push_targets LIMIT 1")
    async with api.database.begin() as connection:
        return [target.token for target in await list_targets(connection, scope_id, recipient_id)]


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({}, [("/token", "missing")]),
        ({"token": None}, [("/token", "missing")]),
        ({"token": ""}, [("/token", "too_short")]),
        ({"token": 7}, [("/token", "type")]),
        ({"token": "x" * 4097}, [("/token", "too_long")]),
        ({"token": "a b"}, [("/token", "invalid")]),
        ({"token": "tökén"}, [("/token", "invalid")]),
        ({"token": "a", "kind": "webpush"}, [("/token", "invalid"), ("/endpoint", "missing"), ("/keys", "missing")]),
        ({"token": "a", "endpoint": "https://web.push.apple.com/a"}, [("/endpoint", "invalid")]),
        ({"endpoint": "https://web.push.apple.com/a"}, [("/keys", "missing")]),
        (
            {"endpoint": "https://web.push.apple.com/a", "keys": {}},
            [("/keys/p256dh", "missing"), ("/keys/auth", "missing")],
        ),
        ({"endpoint": "https://10.0.0.1/a", "keys": BROWSER["keys"]}, [("/endpoint", "invalid")]),
        ({"endpoint": BROWSER["endpoint"], "keys": SWAPPED}, [("/keys/p256dh", "invalid"), ("/keys/auth", "invalid")]),
        ({"endpoint": BROWSER["endpoint"], "keys": OFF_THE_CURVE}, [("/keys/p256dh", "invalid")]),
        ({"token": "a", "platform": "windows"}, [("/platform", "invalid")]),
        ({"token": "a", "app": "x" * 201}, [("/app", "too_long")]),
        ({"token": "a", "plattform": "ios"}, [("/plattform", "unknown_field")]),
        ({"kind": "apns", "platform": 1}, [("/token", "missing"), ("/platform", "type"), ("/kind", "invalid")]),
        ([], [("", "type")]),
    ],
)
async def test_a_body_that_does_not_fit_registers_nothing(api: Api, body: Any, errors: list[tuple[str, str]]) -> None:
    answer = await api.live.put(BOBS, json=body)
    assert answer.status_code == 422, answer.text
    assert sorted((e["pointer"], e["code"]) for e in answer.json()["errors"]) == sorted(errors)
    assert await ids(api.live) == []


async def test_a_recipients_id_that_is_none_is_named(api: Api) -> None:
    answer = await api.live.put(f"/api/v1/recipients/{'x' * 256}/push-targets", json={"token": "a"})
    assert answer.status_code == 422
    assert "recipient's id" in answer.json()["errors"][0]["detail"]


async def test_without_permission_nothing_is_told_or_changed(api: Api) -> None:
    target_id = (await api.put()).json()["id"]
    for method, path, body in (
        ("GET", BOBS, None),
        ("PUT", BOBS, {"token": "b"}),
        ("DELETE", BOBS, {"token": "a"}),
        ("DELETE", f"{BOBS}/{target_id}", None),
    ):
        assert (await api.powerless.request(method, path, json=body)).status_code == 403
        stranger = await api.live.request(method, path, json=body, headers={"Authorization": ""})
        assert stranger.status_code == 401
    assert await ids(api.live) == [target_id]
