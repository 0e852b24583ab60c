"""An end user reads their own inbox, page by page, and nobody else's."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import jwt
import pytest

from services.inapp.api import build_api
from shared.channel import Channel
from shared.ids import ScopeId, format_event_id
from shared.job import Lane
from shared.sealing import Sealer, new_master_key, parse_master_keys
from shared.store.claim import Head, Share
from shared.store.database import Database
from shared.store.inbox_delivery import enter_due
from shared.store.tenants import create_if_missing_and_lock, create_missing_scopes, scopes_of
from shared.tenant import Mode
from shared.web.tokens import mint_subscriber_token
from tests.factories import create_jobs, new_job

PATH = "/api/v1/inbox"
DAY = 24 * 3600


@dataclass
class Inboxes:
    """The API, and two tenants whose recipients have something in their inboxes."""

    api: httpx.AsyncClient
    database: Database
    scopes: dict[tuple[str, Mode], ScopeId]
    secrets: dict[ScopeId, bytes]

    def token(self, recipient: str = "bob", tenant: str = "campus", mode: Mode = Mode.LIVE) -> str:
        scope_id = self.scopes[tenant, mode]
        return mint_subscriber_token(self.secrets[scope_id], scope_id, recipient)

    def forge(self, secret: bytes | None = None, kid: object = None, algorithm: str = "HS256", **claims: Any) -> str:
        """A token for bob with what is given here in place of what is right; a claim that is None is left out."""
        scope_id = self.scopes["campus", Mode.LIVE]
        right = {"sub": "bob", "aud": "waybill-inbox", "exp": int(time.time()) + 600}
        told = {name: value for name, value in {**right, **claims}.items() if value is not None}
        key = self.secrets[scope_id] if secret is None else secret
        headers = {"kid": str(scope_id) if kid is None else kid}
        return jwt.encode(told, "" if algorithm == "none" else key, algorithm=algorithm, headers=headers)

    async def get(self, token: str | None, query: str = "", path: str = PATH) -> httpx.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return await self.api.get(path + query, headers=headers)

    async def fill(
        self, count: int, recipient: str = "bob", tenant: str = "campus", mode: Mode = Mode.LIVE
    ) -> list[str]:
        """``count`` more entries; their event ids, oldest first."""
        scope_id = self.scopes[tenant, mode]
        jobs = [
            new_job(
                channel=Channel.INAPP, scope_id=scope_id, recipient_id=recipient, subject=f"{tenant} {mode} {recipient}"
            )
            for _ in range(count)
        ]
        await create_jobs(self.database, jobs)
        async with self.database.hot() as pg:
            await enter_due(pg, [Share(Head(scope_id, Lane.TRANSACTIONAL, None), count)])
        return [format_event_id(job.event_id) for job in jobs]


@pytest.fixture
async def inboxes(database: Database) -> AsyncIterator[Inboxes]:
    sealer = Sealer(parse_master_keys(new_master_key()))
    secrets: dict[ScopeId, bytes] = {}

    def seal(scope_id: ScopeId) -> bytes:
        secrets[scope_id] = f"secret of scope {scope_id}".encode().ljust(64, b".")
        return sealer.seal(secrets[scope_id], f"scope:{scope_id}")

    scopes: dict[tuple[str, Mode], ScopeId] = {}
    for key in ("campus", "portfolio"):
        async with database.begin() as connection:
            tenant = await create_if_missing_and_lock(connection, key, key.title())
            await create_missing_scopes(connection, tenant.tenant_id, seal)
            for mode, scope in (await scopes_of(connection, key)).items():
                scopes[key, mode] = scope.scope_id
    transport = httpx.ASGITransport(build_api(database, sealer))  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://inbox.test") as api:
        yield Inboxes(api, database, scopes, secrets)


async def test_an_entry_shows_what_was_rendered_and_when(inboxes: Inboxes) -> None:
    (event_id,) = await inboxes.fill(1)
    answer = await inboxes.get(inboxes.token())
    assert answer.status_code == 200
    page = answer.json()
    (entry,) = page["data"]
    created_at = entry.pop("created_at")
    assert created_at.endswith("Z")
    assert entry == {
        "seq": 1,
        "event_id": event_id,
        "event_type": "booking_confirmed",
        "title": "campus live bob",
        "body": "Text",
        "link": None,
        "icon": None,
        "data": {},
        "read_at": None,
    }
    assert page["next_cursor"] is None
    assert page["counts"] == {"unread": 1, "total": 1}


async def test_link_icon_data_and_read_at_are_shown_where_there_are_any(inboxes: Inboxes) -> None:
    await inboxes.fill(1)
    async with inboxes.database.hot() as pg:
        await pg.execute(
            "UPDATE inbox SET read_at = '2026-12-01T14:00:00+01:00', content = $1",
            '{"title": "Tom & Jerry", "body": "b", "locale": "en", "icon": "calendar", "data": {"booking_id": "bk_42"},'
            ' "link": {"url": "https://campus.example/b", "label": "See", "app": "campus://b"}}',
        )
    (entry,) = (await inboxes.get(inboxes.token())).json()["data"]
    assert entry["title"] == "Tom & Jerry"
    assert entry["link"] == {"url": "https://campus.example/b", "label": "See", "app": "campus://b"}
    assert (entry["icon"], entry["data"]) == ("calendar", {"booking_id": "bk_42"})
    assert entry["read_at"] == "2026-12-01T13:00:00Z"


async def test_somebody_who_never_got_anything_has_an_empty_inbox(inboxes: Inboxes) -> None:
    page = (await inboxes.get(inboxes.token("nobody"))).json()
    assert page == {"data": [], "next_cursor": None, "counts": {"unread": 0, "total": 0}}


async def test_pages_follow_each_other_without_gap_or_repeat_while_entries_arrive(inboxes: Inboxes) -> None:
    event_ids = await inboxes.fill(7)
    seen: list[str] = []
    query = "?limit=3"
    while True:
        page = (await inboxes.get(inboxes.token(), query)).json()
        seen += [entry["event_id"] for entry in page["data"]]
        assert page["counts"]["total"] >= 7
        if page["next_cursor"] is None:
            break
        await inboxes.fill(2)
        query = f"?limit=3&cursor={page['next_cursor']}"
    assert seen == event_ids[::-1]


async def test_fifty_come_by_default_and_no_cursor_follows_an_exact_end(inboxes: Inboxes) -> None:
    await inboxes.fill(51)
    first = (await inboxes.get(inboxes.token())).json()
    assert len(first["data"]) == 50
    assert (await inboxes.get(inboxes.token(), "?limit=51")).json()["next_cursor"] is None
    assert (await inboxes.get(inboxes.token(), "?limit=50")).json()["next_cursor"] is not None
    assert len((await inboxes.get(inboxes.token(), "?limit=200")).json()["data"]) == 51


async def test_each_sees_their_own_inbox_and_no_other(inboxes: Inboxes) -> None:
    everybody = [
        (recipient, tenant, mode)
        for recipient in ("bob", "eve")
        for tenant in ("campus", "portfolio")
        for mode in (Mode.LIVE, Mode.TEST)
    ]
    for number, (recipient, tenant, mode) in enumerate(everybody, start=1):
        await inboxes.fill(number, recipient, tenant, mode)
    for number, (recipient, tenant, mode) in enumerate(everybody, start=1):
        page = (await inboxes.get(inboxes.token(recipient, tenant, mode))).json()
        assert [entry["title"] for entry in page["data"]] == [f"{tenant} {mode} {recipient}"] * number
        assert page["counts"] == {"unread": number, "total": number}


async def test_a_token_never_opens_what_it_was_not_signed_for(inboxes: Inboxes) -> None:
    await inboxes.fill(1)
    live, test = inboxes.scopes["campus", Mode.LIVE], inboxes.scopes["campus", Mode.TEST]
    other = inboxes.scopes["portfolio", Mode.LIVE]
    now = int(time.time())
    refused = {
        "expired": (inboxes.forge(exp=now - 60), "token_expired"),
        "another tenant's secret": (inboxes.forge(secret=inboxes.secrets[other]), "token_invalid"),
        "a test token on live data": (inboxes.forge(secret=inboxes.secrets[test]), "token_invalid"),
        "a test token that names the live scope": (
            inboxes.forge(secret=inboxes.secrets[test], kid=str(live)),
            "token_invalid",
        ),
        "no algorithm": (inboxes.forge(algorithm="none"), "token_invalid"),
        "another algorithm": (inboxes.forge(algorithm="HS512"), "token_invalid"),
        "lives too long": (inboxes.forge(exp=now + DAY + 3600), "token_invalid"),
        "lives for ever": (inboxes.forge(exp=None), "token_invalid"),
        "for nobody": (inboxes.forge(sub=None), "token_invalid"),
        "for the empty name": (inboxes.forge(sub=""), "token_invalid"),
        "for another service": (inboxes.forge(aud="waybill-console"), "token_invalid"),
        "for no service": (inboxes.forge(aud=None), "token_invalid"),
        "not yet valid": (inboxes.forge(nbf=now + 3600), "token_invalid"),
        "a scope that does not exist": (inboxes.forge(kid="2147483647"), "token_invalid"),
        "a scope beyond every number": (inboxes.forge(kid="99999999999999999999"), "token_invalid"),
        "a scope that overflows": (inboxes.forge(kid="9999999999"), "token_invalid"),
        "a scope that is no number": (inboxes.forge(kid="1 OR 1=1"), "token_invalid"),
        "no scope": (inboxes.forge(kid=""), "token_invalid"),
        "no token": (None, "token_missing"),
        "an API key": ("wb_live_" + "a" * 38, "token_invalid"),
        "cut off": (inboxes.token()[:-2], "token_invalid"),
        "far too long": ("a" * 10_000, "token_invalid"),
        "empty": ("", "token_invalid"),
    }
    for what, (token, code) in refused.items():
        answer = await inboxes.get(token)
        assert (answer.status_code, answer.json()["code"]) == (401, code), what
        assert answer.headers["content-type"] == "application/problem+json", what
        assert answer.headers["www-authenticate"].startswith("Bearer"), what
        assert "campus live bob" not in answer.text, what


async def test_another_recipients_name_in_the_query_changes_nothing(inboxes: Inboxes) -> None:
    await inboxes.fill(1, "eve")
    answer = await inboxes.get(inboxes.token(), "?recipient=eve")
    assert answer.status_code == 422
    assert "eve" not in answer.text.replace("/recipient", "")


async def test_a_cursor_belongs_to_the_inbox_it_came_from(inboxes: Inboxes) -> None:
    await inboxes.fill(2, "bob")
    await inboxes.fill(2, "eve")
    cursor = (await inboxes.get(inboxes.token("eve"), "?limit=1")).json()["next_cursor"]
    answer = await inboxes.get(inboxes.token("bob"), f"?cursor={cursor}")
    assert answer.status_code == 422
    detail = "belongs to another list, or to other filters"
    assert answer.json()["errors"] == [{"pointer": "/cursor", "code": "invalid", "detail": detail}]


@pytest.mark.parametrize(
    ("query", "pointers"),
    [
        ("?limit=0", ["/limit"]),
        ("?limit=201", ["/limit"]),
        ("?limit=-1", ["/limit"]),
        ("?limit=", ["/limit"]),
        ("?limit=1.0", ["/limit"]),
        ("?limit=99999999999999999999", ["/limit"]),
        ("?limit=%D9%A3", ["/limit"]),
        ("?limit=1&limit=2", ["/limit"]),
        ("?cursor=", ["/cursor"]),
        ("?cursor=%00", ["/cursor"]),
        ("?cursor=WzEsIDFd", ["/cursor"]),
        ("?cursor=" + "a" * 500, ["/cursor"]),
        ("?lmit=3", ["/lmit"]),
        ("?lmit=3&limit=x&cursor=y", ["/lmit", "/limit", "/cursor"]),
    ],
)
async def test_a_wrong_query_is_refused_with_every_mistake(inboxes: Inboxes, query: str, pointers: list[str]) -> None:
    answer = await inboxes.get(inboxes.token(), query)
    assert answer.status_code == 422
    assert answer.json()["code"] == "validation_failed"
    assert [error["pointer"] for error in answer.json()["errors"]] == pointers


async def test_a_misspelt_parameter_is_told_which_was_meant(inboxes: Inboxes) -> None:
    (error,) = (await inboxes.get(inboxes.token(), "?lmit=3")).json()["errors"]
    assert "did you mean limit?" in error["detail"]


async def test_any_page_in_a_browser_may_ask_but_never_with_cookies(inboxes: Inboxes) -> None:
    preflight = await inboxes.api.options(
        PATH,
        headers={
            "Origin": "https://shop.example",
            "Access-Control-Request-Method": "GET",
            "Access-Control-Request-Headers": "authorization",
        },
    )
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-methods"] == "GET, PUT, DELETE"
    assert "Authorization" in preflight.headers["access-control-allow-headers"]
    for answer in (preflight, await inboxes.get(inboxes.token()), await inboxes.get(None)):
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers
        assert answer.headers["cache-control"] == "private, no-store"


async def test_every_other_address_and_method_is_a_problem(inboxes: Inboxes) -> None:
    assert (await inboxes.get(inboxes.token(), path="/api/v1/nothing")).json()["code"] == "not_found"
    assert (await inboxes.api.post(PATH, json={})).json()["code"] == "method_not_allowed"


async def test_a_changed_secret_ends_the_old_tokens_within_seconds(inboxes: Inboxes) -> None:
    token = inboxes.token()
    assert (await inboxes.get(token)).status_code == 200
    async with inboxes.database.hot() as pg:
        await pg.execute("DELETE FROM scopes WHERE scope_id = $1", inboxes.scopes["campus", Mode.LIVE])
    deadline = time.monotonic() + timedelta(seconds=20).total_seconds()
    while (answer := await inboxes.get(token)).status_code == 200 and time.monotonic() < deadline:
        pass
    assert answer.status_code == 401


async def test_without_postgres_the_answer_is_a_503_that_says_when_to_come_back(
    inboxes: Inboxes,
) -> None:
    gone = Database("postgresql://postgres@127.0.0.1:1/gone")
    app = build_api(gone, Sealer(parse_master_keys(new_master_key())))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://inbox.test") as api:  # type: ignore[arg-type]
        answer = await api.get(PATH, headers={"Authorization": f"Bearer {inboxes.token()}"})
    await gone.close()
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "2"
    assert answer.json()["code"] == "unavailable"


async def test_the_description_names_the_lists_parameters(inboxes: Inboxes) -> None:
    described = (await inboxes.api.get("/api/v1/openapi.json")).json()
    parameters = described["paths"][PATH]["get"]["parameters"]
    assert [parameter["name"] for parameter in parameters] == ["limit", "cursor"]
