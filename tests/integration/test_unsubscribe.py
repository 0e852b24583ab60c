"""Unsubscribing: the links in mails, and the page behind them."""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

import httpx
import msgspec
import pytest
from litestar.handlers import HTTPRouteHandler
from msgspec.structs import replace as changed

from services.email.smtp import SmtpProvider
from services.email.unsubscribe import Links, Subscription
from services.email.unsubscribe_form import unsubscribe_routes
from services.email.unsubscribe_words import ALL_WORDS, Words
from shared.content import EmailContent
from shared.delivery.provider import Parcel
from shared.ids import ScopeId
from shared.lifecycle import run_parts
from shared.relay import Relay
from shared.store.database import Database
from shared.store.preferences import unwanted_among
from shared.tenant import Mode
from shared.tenantfile.current import Tenants
from shared.verdict import Delivered
from shared.web.app import make_app
from shared.web.server import http_part
from tests.fakes.ingest import apply_model
from tests.fakes.parcels import email_parcel
from tests.fakes.smtp import SmtpSink
from tests.integration.test_router_wishes import TENANT, routed

KEY, OLD, FOREIGN = b"k" * 32, b"o" * 32, b"f" * 32
ENOUGH = timedelta(seconds=20)
BASE = "https://waybill.example/"
LINKS = Links((KEY, OLD), BASE)


@dataclass
class Page:
    """The running page, for bob of the live half."""

    database: Database
    client: httpx.AsyncClient
    scope_id: ScopeId

    def path(self, category: str = "news", links: Links = LINKS, locale: str = "en") -> str:
        return f"/unsubscribe/{links.write(Subscription(self.scope_id, 'bob', category, locale))}"

    async def unwanted(self) -> set[str]:
        asked = [(self.scope_id, "bob", name) for name in ("news", "offers", "security")]
        async with self.database.hot() as pg:
            return {category for (_, _, category), _ in await unwanted_among(pg, asked)}


@pytest.fixture
async def page(database: Database) -> AsyncIterator[Page]:
    scope_id = (await apply_model(database, TENANT))[Mode.LIVE]
    tenants = Tenants(database)
    await tenants.load()
    async with serving(unsubscribe_routes(database, tenants, LINKS)) as client:
        yield Page(database, client, scope_id)


@asynccontextmanager
async def serving(routes: Sequence[HTTPRouteHandler]) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server with ``routes``."""
    app = make_app(routes, "Waybill email", "/api/v1")
    part, stop = http_part("email-http", app, "127.0.0.1", 0), asyncio.Event()
    running = asyncio.create_task(run_parts([part], stop))
    async with asyncio.timeout(20):
        await part.answering.wait()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{part.port}", timeout=20) as client:
        yield client
    stop.set()
    await running


async def sent(parcel: Parcel, links: Links, extensions: tuple[str, ...] = ("8BITMIME",)) -> SmtpSink:
    """The server that took ``parcel``."""
    sink = await SmtpSink(extensions=extensions).start()
    provider = SmtpProvider(Relay("127.0.0.1", sink.port), pool_size=1, attempt_timeout=ENOUGH, links=links)
    try:
        assert isinstance(await provider.send(parcel), Delivered)
    finally:
        await provider.close()
        await sink.close()
    return sink


async def test_looking_changes_nothing_and_the_button_ends_that_category_only(page: Page) -> None:
    for _ in range(10):
        seen = await page.client.get(page.path())
        assert (seen.status_code, "Unsubscribe" in seen.text, "News" in seen.text) == (200, True, True)
        assert "<script" not in seen.text
        assert ((await page.client.head(page.path())).status_code, await page.unwanted()) == (200, set())
    assert (await page.client.post(page.path(), content="wanted=no")).status_code == 200
    assert await page.unwanted() == {"news"}
    assert "You are unsubscribed" in (await page.client.get(page.path())).text
    assert await routed(page.database, "news", "security", "plain") == [
        ["SKIPPED preference", "PENDING"],
        ["PENDING", "PENDING"],
        ["PENDING", "PENDING"],
    ]
    assert "You are subscribed" in (await page.client.post(page.path(), content="wanted=again")).text
    assert await page.unwanted() == set()


@pytest.mark.parametrize(
    ("locale", "accepted", "language"),
    [
        ("de-AT", "en", "de"),
        ("fr", "de", "fr"),
        ("ja", "xx, de;q=0.5, es;q=0.8, fr;q=0", "es"),
        ("", "de-CH,de;q=0.9", "de"),
        ("ja", "ko;q=nonsense", "en"),
        ("", "", "en"),
    ],
)
async def test_the_page_speaks_the_language_of_the_mail_or_one_that_its_reader_knows(
    page: Page, locale: str, accepted: str, language: str
) -> None:
    seen = await page.client.get(page.path(locale=locale), headers={"Accept-Language": accepted})
    assert f'<html lang="{language}">' in seen.text
    assert ("Abbestellen" in seen.text) is (language == "de")


async def test_every_language_says_who_sends_what(page: Page) -> None:
    for language, words in ALL_WORDS.items():
        texts = {getattr(words, name) for name in ("ask", "stopped", "resumed", "stays")}
        assert all("{sender}" in text and "{category}" in text for text in texts), language
        assert len({getattr(words, name) for name in Words.__slots__}) >= len(Words.__slots__) - 1, language


async def test_the_page_names_the_sender_and_says_so_in_the_title_too(page: Page) -> None:
    seen = (await page.client.get(page.path())).text
    assert TENANT.name in seen.partition("</title>")[0]
    assert f"from {TENANT.name} about “News”" in seen


async def test_a_link_from_before_languages_were_in_it_still_works(page: Page) -> None:
    old = LINKS.sign(msgspec.json.encode([page.scope_id, "bob", "news"]))
    assert (await page.client.post(f"/unsubscribe/{old}", content="wanted=no")).status_code == 200
    assert await page.unwanted() == {"news"}


@pytest.mark.parametrize("path", ["/unsubscribe", "/unsubscribe/"])
async def test_a_link_that_lost_its_end_says_what_to_do(page: Page, path: str) -> None:
    seen = await page.client.get(path, headers={"Accept-Language": "de"})
    assert (seen.status_code, seen.headers["content-type"].startswith("text/html")) == (404, True)
    assert "Dieser Link funktioniert nicht" in seen.text


async def test_people_are_told_on_a_page_when_it_cannot_be_done_just_now(page: Page) -> None:
    away = Database("postgresql://waybill@127.0.0.1:1/waybill")
    tenants = Tenants(page.database)
    await tenants.load()
    async with serving(unsubscribe_routes(away, tenants, LINKS)) as client:
        assert "Unsubscribe?" in (await client.get(page.path())).text
        answer = await client.post(page.path(), content="wanted=no")
    await away.close()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
    assert "Nothing was changed" in answer.text


@pytest.mark.parametrize("multipart", [False, True])
async def test_the_one_click_of_a_mail_program_is_enough_and_may_come_twice(page: Page, multipart: bool) -> None:
    form = {"List-Unsubscribe": "One-Click"}
    for _ in range(2):
        sent = {"files": {name: (None, value) for name, value in form.items()}} if multipart else {"data": form}
        assert (await page.client.post(page.path(), **sent)).status_code == 200
    assert await page.unwanted() == {"news"}


async def test_what_is_critical_stays_on_whatever_the_link_says(page: Page) -> None:
    assert (await page.client.get(page.path("security"))).status_code == 409
    assert (await page.client.post(page.path("security"))).status_code == 409
    assert await page.unwanted() == set()


async def test_forged_cut_and_foreign_links_change_nothing(page: Page) -> None:
    good = page.path()
    for path in (
        page.path(links=Links((FOREIGN,), BASE)),
        good[:-3],
        good + "AAAA",
        "/unsubscribe/x",
        "/unsubscribe/%C3%A4%00",
        f"/unsubscribe/{base64.urlsafe_b64encode(b'0' * 1500).decode()}",
        f"/unsubscribe/{'A' * 5000}",
    ):
        for answer in (await page.client.get(path), await page.client.post(path)):
            assert answer.status_code == 404, path
    assert (await page.client.post(good, content=b"x" * 10_000)).status_code == 413
    assert await page.unwanted() == set()


async def test_a_form_that_does_not_arrive_is_not_waited_for(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.web.body.BODY_SECONDS", 0.2)

    async def never() -> AsyncIterator[bytes]:
        yield b"List-"
        await asyncio.sleep(10)

    answer = await page.client.post(page.path(), content=never())
    assert answer.status_code == 408
    assert await page.unwanted() == set()


async def test_a_link_made_under_an_older_master_key_still_works(page: Page) -> None:
    assert (await page.client.post(page.path(links=Links((OLD,), BASE)))).status_code == 200
    assert await page.unwanted() == {"news"}


@pytest.mark.parametrize(
    ("category", "critical", "links", "carried"),
    [
        ("news", False, LINKS, True),
        ("news", True, LINKS, False),
        (None, False, LINKS, False),
        ("news", False, Links((KEY,), None), False),
        ("n" * 900, False, LINKS, False),
    ],
)
async def test_a_mail_carries_a_link_exactly_where_there_is_something_to_switch_off(
    category: str | None, critical: bool, links: Links, carried: bool
) -> None:
    parcel = email_parcel()
    assert isinstance(parcel.content, EmailContent)
    content = replace(parcel.content, category=category, critical=critical)
    mail = (await sent(changed(parcel, content=content), links)).mails[0].message
    if not carried:
        assert (mail["List-Unsubscribe"], mail["List-Unsubscribe-Post"]) == (None, None)
        return
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    link = str(mail["List-Unsubscribe"])
    assert link.startswith("<https://waybill.example/unsubscribe/")
    named = links.read(link.removesuffix(">").rpartition("/")[2])
    assert named == Subscription(parcel.scope_id, parcel.recipient_id, "news", parcel.content.locale)


@pytest.mark.parametrize("offered", [True, False])
async def test_failures_are_asked_for_by_job_where_the_relay_offers_it(offered: bool) -> None:
    parcel = email_parcel()
    lines = (await sent(parcel, LINKS, extensions=("8BITMIME", "DSN") if offered else ("8BITMIME",))).lines
    mail, rcpt = (next(line for line in lines if line.startswith(verb)) for verb in ("MAIL", "RCPT"))
    assert mail.endswith(f" RET=HDRS ENVID={parcel.stable_id.hex}") is offered
    assert rcpt.endswith(" NOTIFY=FAILURE") is offered
    assert offered or (mail.endswith(">"), rcpt.endswith(">")) == (True, True)
