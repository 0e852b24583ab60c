"""Applying tenant files to a real Postgres: once, twice, changed, shortened, and followed by every process."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text

from shared.errors import SealError, StoreUnavailable, TenantFileError
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.tenantfiles import encode_model
from shared.store.tenants import find_scope, find_tenant, scopes_of
from shared.tenant import Mode
from shared.tenantfile.apply import apply
from shared.tenantfile.current import Tenants
from tests.fakes.wire import wire_to

CAMPUS = Path(__file__).resolve().parents[2] / "examples" / "campus"
SEALER = Sealer([b"k" * 32])

TYPES = {
    "hello": "{channels: {inapp: {title: Hello, body: B}}}",
    "news": "{category: news, channels: {inapp: {title: News, body: B}}}",
}


def write(path: Path, *types: str, rest: str = "", locales: str = "[en]") -> Path:
    """A tenant file with some of ``TYPES``."""
    written = ", ".join(f"{name}: {TYPES[name]}" for name in types)
    category = "categories: {news: {title: News}}" if "news" in types else ""
    path.write_text(
        f"waybill: 1\ntenant: acme\nname: Acme\nlocales: {locales}\n{category}\n{rest}\nevent_types: {{{written}}}\n"
    )
    return path


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.02)


async def count_files(database: Database) -> int:
    async with database.begin() as connection:
        return int((await connection.execute(text("SELECT count(*) FROM tenant_files"))).scalar_one())


async def test_campus_is_applied_with_both_scopes_and_their_sealed_secrets(database: Database) -> None:
    applied = await apply(database, SEALER, CAMPUS / "campus.yaml")
    assert (applied.tenant_key, applied.version, applied.changed) == ("campus", 1, True)
    types = "booking_confirmed, reminder, session_rescheduled, refund_processed, review_ready, payout_sent"
    assert applied.diff == [f"+ tenant campus (CampusCritique), event types: {types}"]
    assert applied.warnings == []
    async with database.begin() as connection:
        scopes = await scopes_of(connection, "campus")
        found = await find_scope(connection, scopes[Mode.TEST].scope_id)
    assert set(scopes) == {Mode.LIVE, Mode.TEST}
    assert found == scopes[Mode.TEST]
    secrets = {SEALER.open(scope.subscriber_secret, f"scope:{scope.scope_id}") for scope in scopes.values()}
    assert {len(secret) for secret in secrets} == {32}
    assert len(secrets) == 2
    with pytest.raises(SealError):
        SEALER.open(scopes[Mode.LIVE].subscriber_secret, f"scope:{scopes[Mode.TEST].scope_id}")


async def test_applying_twice_changes_nothing(database: Database) -> None:
    await apply(database, SEALER, CAMPUS / "campus.yaml")
    async with database.begin() as connection:
        before = await scopes_of(connection, "campus")
    again = await apply(database, SEALER, CAMPUS / "campus.yaml")
    assert (again.version, again.changed, again.diff) == (1, False, [])
    assert await count_files(database) == 1
    async with database.begin() as connection:
        assert await scopes_of(connection, "campus") == before


async def test_two_applies_at_once_make_one_version(database: Database) -> None:
    results = await asyncio.gather(*(apply(database, SEALER, CAMPUS / "campus.yaml") for _ in range(4)))
    assert sorted(result.changed for result in results) == [False, False, False, True]
    assert await count_files(database) == 1


async def test_a_check_writes_nothing(database: Database, tmp_path: Path) -> None:
    path = write(tmp_path / "acme.yaml", "hello")
    checked = await apply(database, SEALER, path, check_only=True)
    assert (checked.version, checked.changed) == (1, True)
    async with database.begin() as connection:
        assert await find_tenant(connection, "acme") is None
    await apply(database, SEALER, path)
    checked = await apply(database, SEALER, write(path, "hello", "news"), check_only=True)
    assert (checked.version, checked.diff) == (2, ["+ categories.news", "+ event_types.news"])
    assert await count_files(database) == 1


async def test_a_file_with_mistakes_changes_nothing(database: Database, tmp_path: Path) -> None:
    path = write(tmp_path / "acme.yaml", "hello", rest="nmae: x")
    with pytest.raises(TenantFileError, match=r"acme\.yaml:6:1 nmae: unknown key nmae, did you mean name"):
        await apply(database, SEALER, path)
    async with database.begin() as connection:
        assert await find_tenant(connection, "acme") is None


async def test_nothing_is_deleted_without_prune(database: Database, tmp_path: Path) -> None:
    sender = "senders: {email: {from: Acme <hello@acme.example>}}"
    path = write(tmp_path / "acme.yaml", "hello", "news", rest=sender)
    await apply(database, SEALER, path)
    kept = await apply(database, SEALER, write(path, "hello"))
    assert kept.kept == ["event_types.news", "categories.news", "senders.email"]
    assert kept.diff == ["~ only the wording of the file: comments, order or layout"]
    tenants = Tenants(database)
    await tenants.load()
    for scoped in tenants.all().values():
        assert list(scoped.tenant.event_types) == ["hello", "news"]
        assert scoped.tenant.senders.email is not None
    assert (await apply(database, SEALER, path)).changed is False
    pruned = await apply(database, SEALER, path, prune=True)
    assert pruned.kept == []
    assert set(pruned.diff) >= {"- event_types.news", "- categories.news"}
    await tenants.refresh()
    assert [list(scoped.tenant.event_types) for scoped in tenants.all().values()] == [["hello"], ["hello"]]


async def test_a_kept_type_that_no_longer_works_stops_the_apply(database: Database, tmp_path: Path) -> None:
    folder = tmp_path / "campus"
    shutil.copytree(CAMPUS, folder)
    path = folder / "campus.yaml"
    await apply(database, SEALER, path)
    whole = path.read_text("utf-8")
    path.write_text(whole[: whole.index("event_types:")].replace("website:", "# website:") + "event_types: {}\n")
    with pytest.raises(TenantFileError) as found:
        await apply(database, SEALER, path)
    broken = "event_types.reminder: is not in the file and kept, but no longer works"
    assert any(broken in mistake for mistake in found.value.mistakes)
    assert (await apply(database, SEALER, path, prune=True)).changed


async def test_a_change_of_an_inlined_text_is_a_new_version(database: Database, tmp_path: Path) -> None:
    folder = tmp_path / "campus"
    shutil.copytree(CAMPUS, folder)
    await apply(database, SEALER, folder / "campus.yaml")
    template = folder / "templates" / "booking_confirmed.en.md"
    template.write_text(template.read_text("utf-8").replace("Hello", "Dear"), "utf-8")
    applied = await apply(database, SEALER, folder / "campus.yaml")
    assert applied.version == 2
    assert len(applied.diff) == 1
    assert applied.diff[0].startswith("~ event_types.booking_confirmed.channels.email.markdown.en: “Hello")


async def test_every_process_follows_the_newest_file(database: Database, tmp_path: Path) -> None:
    path = write(tmp_path / "acme.yaml", "hello")
    tenants, stop = Tenants(database), asyncio.Event()
    await tenants.load()
    assert not tenants.all()
    running = asyncio.create_task(tenants.run(stop))
    try:
        await apply(database, SEALER, path)
        await until(lambda: len(tenants.all()) == 2)
        live, test = sorted(tenants.all().values(), key=lambda scoped: scoped.mode)
        assert (live.mode, test.mode, live.tenant.key) == (Mode.LIVE, Mode.TEST, "acme")
        assert live.tenant is test.tenant
        assert tenants.of_scope(live.scope_id) is live
        assert tenants.of_scope(type(live.scope_id)(live.scope_id + 1000)) is None
        await apply(database, SEALER, write(path, "hello", "news"))
        await until(lambda: {scoped.file_version for scoped in tenants.all().values()} == {2})
    finally:
        stop.set()
        await running


async def test_an_unreadable_model_keeps_its_predecessor_and_the_other_tenants(
    database: Database, tmp_path: Path
) -> None:
    path = write(tmp_path / "acme.yaml", "hello")
    await apply(database, SEALER, path)
    await apply(database, SEALER, CAMPUS / "campus.yaml")
    tenants = Tenants(database)
    await tenants.load()
    await apply(database, SEALER, write(path, "hello", "news"))
    campus = next(scoped.tenant for scoped in tenants.all().values() if scoped.tenant.key == "campus")
    broken = encode_model(campus).replace('"name":"CampusCritique"', '"name":7', 1)
    async with database.begin() as connection:
        statement = text("UPDATE tenant_files SET model = CAST(:model AS json) WHERE version = 2")
        await connection.execute(statement, {"model": broken})
    await tenants.refresh()
    seen = {(scoped.tenant.key, scoped.file_version) for scoped in tenants.all().values()}
    assert seen == {("acme", 1), ("campus", 1)}


async def test_an_outage_keeps_the_last_good_ones_and_ends_by_itself(database_url: str, tmp_path: Path) -> None:
    path = write(tmp_path / "acme.yaml", "hello")
    url = urlsplit(database_url)
    direct, stop = Database(database_url, pool_size=2), asyncio.Event()
    await apply(direct, SEALER, path)
    async with wire_to(url.hostname or "", url.port or 0) as wire:
        credentials = url.netloc.rpartition("@")[0]
        through = Database(url._replace(netloc=f"{credentials}@127.0.0.1:{wire.port}").geturl(), pool_size=2)
        tenants = Tenants(through)
        await tenants.load()
        await wire.cut()
        with pytest.raises(StoreUnavailable):
            await tenants.refresh()
        running = asyncio.create_task(tenants.run(stop))
        await apply(direct, SEALER, write(path, "hello", "news"))
        assert {scoped.file_version for scoped in tenants.all().values()} == {1}
        await wire.mend()
        await until(lambda: {scoped.file_version for scoped in tenants.all().values()} == {2})
        stop.set()
        await running
        await through.close()
    await direct.close()
