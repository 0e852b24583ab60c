"""What an event becomes: one entry per channel, with content, or with the reason why not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.channel import Channel
from shared.content import EmailContent, InappContent, Link
from shared.errors import UnknownEventType
from shared.ids import ScopeId, TenantId, new_event_id
from shared.job import JobReason, JobStatus, Lane
from shared.recipient import Recipient
from shared.rendering.decide import EventFacts, Planned, Refused, plan
from shared.tenant import Mode, ScopedTenant, Tenant
from shared.tenantfile.check import check_file
from tests.tenantfiles import file_with_type, read_file

CAMPUS = Path(__file__).resolve().parents[2] / "examples" / "campus" / "campus.yaml"
BOB = Recipient("bob", "Bob", "bob@example.com", "en", "America/New_York")
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def scoped(tenant: Tenant) -> ScopedTenant:
    return ScopedTenant(ScopeId(1), TenantId(1), Mode.LIVE, 3, tenant)


def event(event_type: str, payload: dict[str, Any], recipient: Recipient = BOB, **facts: Any) -> EventFacts:
    expires_at = NOW + timedelta(hours=24)
    return EventFacts(new_event_id(), event_type, recipient, payload, NOW, **{"expires_at": expires_at, **facts})


@pytest.fixture(scope="module")
def campus() -> Tenant:
    return check_file(CAMPUS).tenant


def both(tenant: Tenant, facts: EventFacts) -> tuple[InappContent, EmailContent]:
    entry, mail, _push = plan(scoped(tenant), facts)
    assert isinstance(entry, Planned) and isinstance(entry.content, InappContent)
    assert isinstance(mail, Planned) and isinstance(mail.content, EmailContent)
    return entry.content, mail.content


def test_booking_confirmed_speaks_english_in_the_recipients_zone(campus: Tenant) -> None:
    entry, mail = both(campus, event("booking_confirmed", campus.event_types["booking_confirmed"].example))
    assert entry == InappContent(
        title="Linear algebra is booked",
        body="With Ada on Tuesday 1 December, 09:00",
        locale="en",
        link=Link("https://campus.example/bookings/bk_42", "See your booking", "campus://bookings/bk_42"),
        icon="calendar",
        data={"booking_id": "bk_42"},
    )
    assert (mail.to_address, mail.to_name) == ("bob@example.com", "Bob")
    assert mail.subject == "Booked: Linear algebra with Ada"
    assert (mail.category, mail.critical, mail.locale) == ("bookings", True, "en")
    assert "Hello Bob,\n\nyour session is booked." in mail.text
    assert "- Paid: €25.00" in mail.text
    assert "> Please bring last year's exam." in mail.text
    assert "See your booking: https://campus.example/bookings/bk_42" in mail.text
    assert 'href="https://campus.example/bookings/bk_42"' in mail.html
    assert "<strong>Course:</strong> Linear algebra" in mail.html
    assert "{{" not in mail.html + mail.text


def test_a_german_speaking_recipient_without_zone_gets_german_in_the_tenants_zone(campus: Tenant) -> None:
    carla = Recipient("carla", email="carla@example.com", locale="de-AT")
    entry, mail = both(campus, event("booking_confirmed", campus.event_types["booking_confirmed"].example, carla))
    assert entry.title == "Linear algebra ist gebucht"
    assert entry.body == "Mit Ada am Dienstag, 1. Dezember, 15:00 Uhr"
    assert mail.text.startswith("Linear algebra ist gebucht\n\nHallo,\n\n")
    assert "Bezahlt: 25,00\xa0€" in mail.text
    assert '<html lang="de" dir="ltr">' in mail.html


def test_the_reminders_mail_is_made_of_its_message(campus: Tenant) -> None:
    entry, mail = both(campus, event("reminder", campus.event_types["reminder"].example))
    assert entry.title == mail.subject == "Linear algebra in two hours"
    assert "It starts at 09:00." in mail.text
    assert "<p>It starts at 09:00.</p>" in mail.html
    assert "Open: https://campus.example/bookings/bk_42" in mail.text
    assert mail.critical is False


def test_hostile_values_are_text_everywhere(campus: Tenant) -> None:
    payload = campus.event_types["booking_confirmed"].example | {
        "course": "Tom & Jerry <script>",
        "note": "[x](javascript:alert(1))\n\n# Hi",
        "booking_id": "../../admin?x=1#y",
    }
    entry, mail = both(campus, event("booking_confirmed", payload, replace(BOB, name="*Bob*\r\nBcc: x")))
    assert entry.title == "Tom & Jerry <script> is booked"
    assert entry.link is not None
    assert entry.link.url == "https://campus.example/bookings/..%2F..%2Fadmin%3Fx%3D1%23y"
    assert mail.subject == "Booked: Tom & Jerry <script> with Ada"
    assert "Course: Tom & Jerry <script>" in mail.text
    assert "Tom &amp; Jerry &lt;script&gt;" in mail.html and "<script" not in mail.html
    assert "javascript:" not in mail.html.replace("(javascript:alert(1))", "")
    assert mail.to_name == "*Bob* Bcc: x"


def test_a_missing_address_fails_the_mail_and_nothing_else(campus: Tenant) -> None:
    example = campus.event_types["reminder"].example
    entry, mail, push = plan(scoped(campus), event("reminder", example, replace(BOB, email=None)))
    assert isinstance(entry, Planned) and isinstance(push, Planned)
    assert isinstance(mail, Refused)
    assert (mail.channel, mail.status, mail.reason) == (Channel.EMAIL, JobStatus.FAILED, JobReason.NO_ADDRESS)


def test_a_template_that_fails_fails_its_channel_and_nothing_else() -> None:
    tenant = read_file(
        file_with_type("""
        channels:
          inapp: {title: T, body: "{{ payload.count | default: 1 | divided_by: 2 }}"}
          email: {subject: S, text: "{{ 6 | divided_by: payload.price.amount }}"}
        """)
    )
    payload = tenant.event_types["made"].example
    assert all(isinstance(entry, Planned) for entry in plan(scoped(tenant), event("made", payload)))
    entry, mail = plan(scoped(tenant), event("made", payload | {"price": {"amount": "0"}}))
    assert isinstance(entry, Planned)
    assert isinstance(mail, Refused)
    assert (mail.status, mail.reason) == (JobStatus.FAILED, JobReason.TEMPLATE_ERROR)
    assert "text.en, line 1" in mail.detail


def test_a_zone_nobody_knows_is_an_error_and_never_quietly_utc(campus: Tenant) -> None:
    lost = replace(BOB, timezone="Mars/Olympus")
    for entry in plan(scoped(campus), event("reminder", campus.event_types["reminder"].example, lost)):
        assert isinstance(entry, Refused)
        assert (entry.reason, entry.detail) == (JobReason.TEMPLATE_ERROR, "the time zone is one nobody knows")


def test_an_event_type_that_is_gone_is_an_error_of_its_own(campus: Tenant) -> None:
    with pytest.raises(UnknownEventType, match="campus has no event type gone"):
        plan(scoped(campus), event("gone", {}))


def test_a_channel_can_be_more_impatient_than_its_event() -> None:
    tenant = read_file(
        file_with_type("""
        lane: bulk
        expires_after: 6h
        channels:
          inapp: {title: T, body: B}
          email: {subject: S, text: B, expires_after: 1h, lane: transactional, on_unknown: hold}
        """)
    )
    payload = tenant.event_types["made"].example
    entry, mail = plan(scoped(tenant), event("made", payload, expires_at=NOW + timedelta(hours=6)))
    assert (entry.lane, mail.lane) == (Lane.BULK, Lane.TRANSACTIONAL)
    assert entry.expires_at == NOW + timedelta(hours=6)
    assert mail.expires_at == NOW + timedelta(hours=1)
    assert mail.terms.on_unknown == "hold"
    later = NOW + timedelta(hours=3)
    _, mail = plan(scoped(tenant), event("made", payload, send_at=later, expires_at=NOW + timedelta(hours=9)))
    assert mail.expires_at == later + timedelta(hours=1)


def test_a_type_kept_from_before_a_locale_was_added_speaks_its_first_one(campus: Tenant) -> None:
    wider = replace(campus, locales=("en", "de", "fr"))
    marie = Recipient("marie", email="marie@example.com", locale="fr")
    entry, _mail = both(wider, event("reminder", campus.event_types["reminder"].example, marie))
    assert entry.title == "Linear algebra in two hours"


@pytest.mark.parametrize("booking_id", [".", "..", "%2e%2e"])
def test_a_link_that_climbs_is_refused(campus: Tenant, booking_id: str) -> None:
    payload = campus.event_types["reminder"].example | {"booking_id": booking_id}
    results = plan(scoped(campus), event("reminder", payload))
    if booking_id == "%2e%2e":
        assert all(isinstance(entry, Planned) for entry in results)
    else:
        assert [entry.reason for entry in results if isinstance(entry, Refused)] == [JobReason.TEMPLATE_ERROR] * 3
