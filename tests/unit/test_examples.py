"""The shipped tenants: every event type says something in every locale, and nothing is left of its templates."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.channel import Channel
from shared.content import EmailContent, InappContent, PushContent
from shared.ids import ScopeId, TenantId, new_event_id
from shared.recipient import Recipient
from shared.rendering.decide import EventFacts, Planned, plan
from shared.tenant import EventType, Mode, ScopedTenant, Tenant
from shared.tenantfile.check import check_file

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TENANTS = {name: check_file(EXAMPLES / name / f"{name}.yaml").tenant for name in ("campus", "portfolio", "storefront")}
BOTH = (Channel.INAPP, Channel.PUSH)
ALL = (Channel.INAPP, Channel.EMAIL, Channel.PUSH)
CHANNELS: dict[str, dict[str, tuple[Channel, ...]]] = {
    "campus": {
        "booking_confirmed": ALL,
        "reminder": ALL,
        "session_rescheduled": ALL,
        "refund_processed": (Channel.INAPP, Channel.EMAIL),
        "review_ready": BOTH,
        "payout_sent": ALL,
    },
    "portfolio": {"contact_form": (Channel.EMAIL,)},
    "storefront": {"order_update": BOTH, "stock_change": BOTH, "discount": BOTH, "milestone": BOTH},
}
TITLES = {
    ("booking_confirmed", "de"): "Linear algebra ist gebucht",
    ("reminder", "en"): "Linear algebra in two hours",
    ("session_rescheduled", "en"): "Linear algebra was moved",
    ("refund_processed", "en"): "€25.00 are on their way back to you",
    ("refund_processed", "de"): "25,00 € sind auf dem Weg zu dir",
    ("payout_sent", "de"): "312,50 € wurden dir überwiesen",
    ("order_update", "en"): "Order 1042 is on its way",
    ("order_update", "de"): "Bestellung 1042 ist unterwegs",
    ("stock_change", "en"): "Salt-glazed mug: 3 left",
    ("discount", "de"): "10 % Rabatt mit KILN10",
    ("milestone", "en"): "That was your order number 10",
}


def each() -> Iterator[tuple[str, str, str]]:
    """Every event type of every tenant in every locale."""
    for name, tenant in TENANTS.items():
        for event_type in tenant.event_types:
            for locale in tenant.locales:
                yield name, event_type, locale


def contents(tenant: Tenant, event_type: EventType, locale: str) -> list[InappContent | EmailContent | PushContent]:
    """What the type's example becomes."""
    recipient = event_type.to or Recipient("bob", "Bob", "bob@example.com", locale)
    now = datetime.now(UTC)
    event = EventFacts(new_event_id(), event_type.id, recipient, event_type.example, now, now + timedelta(hours=24))
    entries = plan(ScopedTenant(ScopeId(1), TenantId(1), Mode.LIVE, 1, tenant), event)
    return [entry.content for entry in entries if isinstance(entry, Planned)]


def test_every_tenant_ships_what_it_promises() -> None:
    shipped = {
        name: {event_type.id: event_type.channels() for event_type in tenant.event_types.values()}
        for name, tenant in TENANTS.items()
    }
    assert shipped == CHANNELS


@pytest.mark.parametrize(("name", "event_type", "locale"), list(each()))
def test_every_example_is_written_on_every_channel_in_every_locale(name: str, event_type: str, locale: str) -> None:
    tenant = TENANTS[name]
    written = contents(tenant, tenant.event_types[event_type], locale)
    assert len(written) == len(CHANNELS[name][event_type])
    for content in written:
        assert content.locale == locale
        match content:
            case EmailContent():
                texts = [content.subject, content.text, content.html]
            case InappContent() | PushContent():
                texts = [content.title, content.body, *content.data.values()]
                assert content.title == TITLES.get((event_type, locale), content.title)
        assert all(text.strip() and "{{" not in text and "{%" not in text for text in texts)


def test_the_contact_form_goes_to_its_owner_and_answers_go_to_the_visitor() -> None:
    tenant = TENANTS["portfolio"]
    (mail,) = contents(tenant, tenant.event_types["contact_form"], "en")
    assert isinstance(mail, EmailContent)
    assert (mail.to_address, mail.to_name, mail.reply_to) == ("ines@ines.example", "Ines Okafor", "tom@visitor.example")
    assert mail.subject == "Contact form: Tom Baker"
    assert "> Hello Ines,\n> would you have time for a book cover in spring?" in mail.text
    assert "Georgia,serif" in mail.html


def test_plurals_and_states_are_told_apart() -> None:
    campus, shop = TENANTS["campus"], TENANTS["storefront"]
    told: list[tuple[Tenant, str, dict[str, Any], str]] = [
        (campus, "payout_sent", {"session_count": 1}, "For 1 session, to the account that ends in 4711"),
        (campus, "payout_sent", {"session_count": 2}, "For 2 sessions, to the account that ends in 4711"),
        (shop, "order_update", {"status": "packed"}, "Order 1042 is packed"),
        (shop, "order_update", {"status": "delivered"}, "Order 1042 has arrived"),
        (shop, "order_update", {"status": "cancelled"}, "Order 1042 was cancelled"),
        (shop, "stock_change", {"left": 0}, "Salt-glazed mug is sold out"),
    ]
    for tenant, name, changes, expected in told:
        event_type = tenant.event_types[name]
        now = datetime.now(UTC)
        event = EventFacts(
            new_event_id(), name, Recipient("bob"), event_type.example | changes, now, now + timedelta(hours=1)
        )
        entry = plan(ScopedTenant(ScopeId(1), TenantId(1), Mode.LIVE, 1, tenant), event)[0]
        assert isinstance(entry, Planned) and isinstance(entry.content, InappContent)
        assert expected in (entry.content.title, entry.content.body)
