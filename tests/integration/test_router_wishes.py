"""What is not to be sent is decided at routing: suppressed addresses, and categories that somebody switched off."""

from dataclasses import replace

from services.router.route import route
from shared.channel import Channel
from shared.ids import ScopeId
from shared.store.database import Database
from shared.store.preferences import set_preference
from shared.store.suppressions import NewSuppression, SuppressionReason, SuppressionSource, suppress
from shared.tenant import Category, Mode, Tenant
from shared.tenantfile.current import Tenants
from tests.factories import accept_events, new_event
from tests.fakes.ingest import apply_model
from tests.fakes.ledger import ledger_mistakes
from tests.fakes.router import event_type

BOB = '{"id":"bob","email":"Bob@Example.com"}'
TENANT = Tenant(
    "campus",
    "Campus",
    ("en",),
    event_types={
        "news": replace(event_type("news"), category="news"),
        "security": replace(event_type("security"), category="security"),
        "plain": event_type("plain"),
    },
    categories={"news": Category({"en": "News"}), "security": Category({"en": "Security"}, critical=True)},
)


async def routed(database: Database, *names: str, recipient: str = BOB, mode: Mode = Mode.LIVE) -> list[list[str]]:
    """Per event of these types: how its jobs ended up, email first."""
    scopes = await apply_model(database, TENANT)
    tenants = Tenants(database)
    await tenants.load()
    events = [new_event(scope_id=scopes[mode], event_type=name, recipient=recipient) for name in names]
    ids = await accept_events(database, events)
    async with database.hot() as pg:
        async with pg.transaction():
            await route(pg, tenants, ids)
        rows = await pg.fetch("SELECT event_id, status, reason FROM outgoing ORDER BY event_id, channel")
    found = {event_id: [f"{row[1]} {row[2]}".strip() for row in rows if row[0] == event_id] for event_id in ids}
    return [found[event_id] for event_id in ids]


async def live_scope(database: Database) -> ScopeId:
    return (await apply_model(database, TENANT))[Mode.LIVE]


async def test_a_suppressed_address_gets_no_mail_but_its_owner_everything_else(database: Database) -> None:
    scope_id = await live_scope(database)
    async with database.hot() as pg:
        new = NewSuppression("bob@example.com", SuppressionReason.BOUNCED, SuppressionSource.RECEIPT)
        await suppress(pg, scope_id, Channel.EMAIL, new)
    assert await routed(database, "plain", "security") == [["SKIPPED suppressed", "PENDING"]] * 2
    assert await routed(database, "plain", recipient='{"id":"bob","email":"other@example.com"}') == [["PENDING"] * 2]
    assert await routed(database, "plain", mode=Mode.TEST) == [["PENDING"] * 2]
    assert await ledger_mistakes(database) == []


async def test_a_category_that_was_switched_off_is_skipped_on_that_channel_alone(database: Database) -> None:
    scope_id = await live_scope(database)
    async with database.hot() as pg:
        await set_preference(pg, scope_id, "bob", "news", Channel.EMAIL, wanted=False)
        await set_preference(pg, scope_id, "bob", "security", Channel.EMAIL, wanted=False)
    skipped, critical, plain = await routed(database, "news", "security", "plain")
    assert skipped == ["SKIPPED preference", "PENDING"]
    assert critical == ["PENDING", "PENDING"]
    assert plain == ["PENDING", "PENDING"]
    assert await routed(database, "news", recipient='{"id":"carol","email":"bob@example.com"}') == [["PENDING"] * 2]
    async with database.hot() as pg:
        await set_preference(pg, scope_id, "bob", "news", Channel.EMAIL, wanted=True)
    assert await routed(database, "news") == [["PENDING", "PENDING"]]
