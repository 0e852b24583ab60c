"""The fetcher of the storefront example: every change becomes one event, however often the script is cut off."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from shared.keys import Permission
from shared.store.database import Database
from shared.store.keys import create_key
from shared.tenant import Mode
from shared.tenantfile.check import check_file
from tests.fakes.ingest import Ingest, apply_model, running_ingest

STOREFRONT = Path(__file__).resolve().parents[2] / "examples" / "storefront"
BOB = {"id": "bob", "name": "Bob", "locale": "de"}
CHANGES: list[dict[str, Any]] = [
    {"kind": "order", "order_id": "1042", "status": "packed", "customer": BOB},
    {"kind": "order", "order_id": "1042", "status": "shipped", "arrives_on": "2026-12-04", "customer": BOB},
    {"kind": "stock", "product_id": "mug-7", "product": "Salt-glazed mug", "left": 3, "customer": BOB},
    {"kind": "discount", "code": "KILN10", "percent": 10, "ends_at": "2026-12-06T22:59:00Z", "customer": {"id": "eve"}},
    {"kind": "milestone", "order_count": 10, "customer": BOB},
]


@dataclass
class Shop:
    """A shop that tells what has changed."""

    changes: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    url: str = ""

    def add(self, *changes: dict[str, Any]) -> None:
        """Let these happen."""
        self.changes += [change | {"number": len(self.changes) + at} for at, change in enumerate(changes, start=1)]

    async def tell(self, request: web.Request) -> web.Response:
        """What has changed since the number in the query."""
        after = int(request.query["after"])
        return web.json_response({"changes": self.changes[after:]}, status=self.status)


@asynccontextmanager
async def open_shop() -> AsyncIterator[Shop]:
    shop, app = Shop(), web.Application()
    app.router.add_get("/changes", shop.tell)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    shop.url = f"http://127.0.0.1:{runner.addresses[0][1]}/changes"
    yield shop
    await runner.cleanup()


@dataclass
class Fetching:
    """A shop, an ingest, and the script between them."""

    shop: Shop
    ingest: Ingest
    key: str
    state: Path

    async def fetch(self, **changes: str) -> tuple[int, str, str]:
        """Exit code, output and complaints of one run."""
        options = {"source": self.shop.url, "waybill": self.ingest.base_url, "state": str(self.state)} | changes
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(STOREFRONT / "fetcher" / "fetch.py"), *words),
            env={"STOREFRONT_KEY": self.key},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            output, complaints = await process.communicate()
        return process.returncode or 0, output.decode(), complaints.decode()

    async def keys(self) -> list[str]:
        """The idempotency keys of all events, in the order in which they were accepted."""
        async with self.ingest.database.hot() as pg:
            rows = await pg.fetch("SELECT idempotency_key FROM events ORDER BY event_id")
        return [row["idempotency_key"] for row in rows]


@pytest.fixture
async def fetching(database: Database, tmp_path: Path) -> AsyncIterator[Fetching]:
    async with running_ingest(database) as ingest, open_shop() as shop:
        scopes = await apply_model(database, check_file(STOREFRONT / "storefront.yaml").tenant)
        await ingest.tenants.refresh()
        async with database.begin() as connection:
            key = await create_key(connection, scopes[Mode.LIVE], Mode.LIVE, [Permission.EVENTS_WRITE])
        yield Fetching(shop, ingest, key, tmp_path / "fetched")


async def test_every_change_becomes_an_event_whose_key_says_what_happened(fetching: Fetching) -> None:
    fetching.shop.add(*CHANGES)
    code, output, complaints = await fetching.fetch()
    assert (code, complaints) == (0, "")
    assert len(output.splitlines()) == len(CHANGES)
    assert await fetching.keys() == [
        "order:1042:packed",
        "order:1042:shipped",
        "stock:mug-7:3:bob",
        "discount:KILN10:eve",
        "milestone:bob:10",
    ]


async def test_what_was_fetched_is_not_fetched_again_and_what_is_new_is(fetching: Fetching) -> None:
    fetching.shop.add(*CHANGES[:2])
    await fetching.fetch()
    assert (await fetching.fetch())[:2] == (0, "")
    fetching.shop.add(CHANGES[2])
    assert len((await fetching.fetch())[1].splitlines()) == 1
    assert len(await fetching.keys()) == 3


async def test_a_script_that_forgot_what_it_posted_posts_nothing_twice(fetching: Fetching) -> None:
    fetching.shop.add(*CHANGES)
    first = (await fetching.fetch())[1]
    fetching.state.write_text("1")
    assert (await fetching.fetch())[1].splitlines() == first.splitlines()[1:]
    fetching.state.unlink()
    assert (await fetching.fetch())[1] == first
    assert len(await fetching.keys()) == len(CHANGES)


async def test_what_waybill_will_never_take_does_not_hold_up_the_rest(fetching: Fetching) -> None:
    wrong = CHANGES[0] | {"status": "lost"}
    fetching.shop.add(wrong, {"kind": "weather", "customer": BOB}, {"kind": "order"}, CHANGES[4])
    code, output, complaints = await fetching.fetch()
    assert code == 0
    assert "1: order:1042:lost: refused: " in output
    assert "2: left out, this fetcher does not know 'weather'" in complaints
    assert "3: left out, this fetcher does not know 'customer'" in complaints
    assert await fetching.keys() == ["milestone:bob:10"]


async def test_a_source_or_a_waybill_that_is_down_loses_nothing(fetching: Fetching) -> None:
    fetching.shop.add(*CHANGES)
    code, _, complaints = await fetching.fetch(waybill="http://127.0.0.1:9")
    assert code == 1 and "not now: http://127.0.0.1:9/" in complaints
    fetching.key, key = "wb_live_nonsense", fetching.key
    code, _, complaints = await fetching.fetch()
    assert code == 1 and "answered 401" in complaints
    fetching.key, fetching.shop.status = key, 503
    code, _, complaints = await fetching.fetch()
    assert code == 1 and "answered 503" in complaints
    assert not fetching.state.exists()
    fetching.shop.status = 200
    assert (await fetching.fetch())[0] == 0
    assert len(await fetching.keys()) == len(CHANGES)


@pytest.mark.parametrize("address", ["file:///etc/passwd", "shop.example"])
async def test_addresses_that_are_none_are_refused(fetching: Fetching, address: str) -> None:
    code, _, complaints = await fetching.fetch(source=address)
    assert code == 2 and "is no http or https address" in complaints


async def test_the_customers_words_reach_the_event(fetching: Fetching) -> None:
    fetching.shop.add(CHANGES[1])
    await fetching.fetch()
    async with fetching.ingest.database.hot() as pg:
        row = await pg.fetchrow("SELECT event_type, ref, recipient::text, payload::text FROM events")
    assert row is not None
    assert (row["event_type"], row["ref"], json.loads(row["recipient"])) == ("order_update", "order:1042", BOB)
    assert json.loads(row["payload"]) == {"order_id": "1042", "status": "shipped", "arrives_on": "2026-12-04"}
