"""What a tenant file says of push, how its mistakes are told, and the notification that comes of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.channel import Channel
from shared.content import AndroidStyle, AppleStyle, Link, PushContent, WebStyle
from shared.ids import ScopeId, TenantId, new_event_id
from shared.job import JobReason, JobStatus
from shared.recipient import Recipient
from shared.rendering.decide import EventFacts, Planned, Refused, plan
from shared.retry import DEFAULT_POLICIES
from shared.tenant import Mode, PushRule, ScopedTenant, Tenant
from shared.tenantfile.diff import diff
from tests.tenantfiles import event_type_of, file_with_type, mistakes_in, read_file

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
WHOLE = """
message:
  title: {en: "{{ payload.course }} is booked", de: "{{ payload.course }} ist gebucht"}
  body: With Ada
  link: {label: See it, url: "/bookings/{{ payload.course }}"}
channels:
  push:
    data: {course: "{{ payload.course }}"}
    badge: unread
    urgency: high
    ttl: 4h
    collapse: "booking  {{ payload.course }}"
    android: {channel_id: bookings, icon: ic_booking}
    apple: {sound: default, thread_id: bookings}
    web: {icon: /static/icon.png}
"""


def planned(tenant: Tenant, recipient: Recipient, **payload: Any) -> Planned | Refused:
    """The push of the type ``made``."""
    event = EventFacts(
        new_event_id(),
        "made",
        recipient,
        tenant.event_types["made"].example | payload,
        NOW,
        NOW + timedelta(hours=24),
    )
    (entry,) = plan(ScopedTenant(ScopeId(1), TenantId(1), Mode.LIVE, 1, tenant), event)
    return entry


def test_a_push_says_all_there_is_to_say() -> None:
    entry = planned(read_file(file_with_type(WHOLE)), Recipient("bob", locale="de"))
    assert isinstance(entry, Planned)
    assert entry.channel is Channel.PUSH
    assert entry.content == PushContent(
        title="Algebra ist gebucht",
        body="With Ada",
        locale="de",
        link=Link("https://acme.example/bookings/Algebra", "See it"),
        data={"course": "Algebra"},
        badge="unread",
        urgency="high",
        ttl=timedelta(hours=4),
        collapse="booking Algebra",
        android=AndroidStyle("bookings", "ic_booking"),
        apple=AppleStyle("default", "bookings"),
        web=WebStyle("https://acme.example/static/icon.png"),
    )


def test_a_push_needs_no_more_than_the_message() -> None:
    text = file_with_type("message: {title: T, body: B}\nchannels: {push: {}}")
    rule = event_type_of(text).push
    assert rule is not None
    assert rule == PushRule(rule.how, {"en": "T", "de": "T"}, {"en": "B", "de": "B"})
    assert rule.how.terms.retry == DEFAULT_POLICIES[Channel.PUSH]
    entry = planned(read_file(text), Recipient("bob"))
    assert isinstance(entry, Planned)
    assert entry.content == PushContent("T", "B", "en")


def test_its_own_words_come_before_the_messages_and_its_own_terms_before_the_types() -> None:
    rule = event_type_of(
        file_with_type(
            "expires_after: 6h\nmessage: {title: T, body: B}\n"
            "channels: {push: {title: P, expires_after: 1h, on_unknown: hold, retry: {attempts: 5}}}"
        )
    ).push
    assert rule is not None
    assert (rule.title["en"], rule.body["en"]) == ("P", "B")
    assert (rule.how.expires_after, rule.how.terms.on_unknown, rule.how.terms.retry.attempts) == (
        timedelta(hours=1),
        "hold",
        5,
    )


def test_a_recipient_without_a_phone_has_a_push_job_all_the_same() -> None:
    tenant = read_file(file_with_type("channels: {push: {title: T, body: B}}"))
    assert isinstance(planned(tenant, Recipient("nobody")), Planned)


def test_values_are_not_escaped_and_a_link_that_climbs_fails_the_push() -> None:
    tenant = read_file(file_with_type(WHOLE))
    entry = planned(tenant, Recipient("bob"), course="Tom & <Jerry>")
    assert isinstance(entry, Planned) and isinstance(entry.content, PushContent)
    assert entry.content.title == "Tom & <Jerry> is booked"
    refused = planned(tenant, Recipient("bob"), course="..")
    assert isinstance(refused, Refused)
    assert (refused.channel, refused.status, refused.reason) == (
        Channel.PUSH,
        JobStatus.FAILED,
        JobReason.TEMPLATE_ERROR,
    )


@pytest.mark.parametrize(
    ("push", "what"),
    [
        ("{}", "push: title is missing: neither here nor in message"),
        ("{title: T}", "push: body is missing: neither here nor in message"),
        ("{title: '', body: B}", "push.title: is empty"),
        ("{title: T, body: '{{ payload.cuorse }}'}", "did you mean payload.course?"),
        (
            "{title: T, body: B, urgency: hihg}",
            "push.urgency: must be one of very-low, low, normal, high, did you mean",
        ),
        ("{title: T, body: B, badge: 3}", "push.badge: must be one of unread"),
        ("{title: T, body: B, ttl: 29d}", "push.ttl: can be 28d at most"),
        ("{title: T, body: B, ttl: 60}", "push.ttl: must be a duration with its unit"),
        ("{title: T, body: B, data: {a: 1}}", "push.data.a: must be text, not the number 1"),
        ("{title: T, body: B, data: {from: x}}", "push.data.from: the key from is reserved"),
        ("{title: T, body: B, data: {google.x: x}}", "the key google.x is reserved"),
        ("{title: T, body: B, data: {waybill_job: x}}", "push.data.waybill_job: the key waybill_job is reserved"),
        ("{title: T, body: B, colapse: x}", "push.colapse: unknown key colapse, did you mean collapse?"),
        ("{title: T, body: B, collapse: '{{ payload.note }}'}", "push.collapse: payload.note is optional"),
        ("{title: T, body: B, android: {chanel_id: x}}", "android.chanel_id: unknown key chanel_id, did you mean"),
        ("{title: T, body: B, apple: default}", "push.apple: must be a mapping, not text"),
        ("{title: T, body: B, web: {icon: icon.png}}", "push.web.icon: must begin with https:// or /"),
        ("{title: T, body: B, web: {icon: //evil.example/a}}", "push.web.icon: must begin with https:// or /"),
        ("{title: T, body: B, when: x}", "push.when: not yet: conditions and fallback channels"),
        ("{title: T, body: B, expires_after: 2d}", "push.expires_after: a channel cannot wait longer"),
    ],
)
def test_a_push_that_cannot_work_is_refused(push: str, what: str) -> None:
    found = mistakes_in(file_with_type(f"channels: {{push: {push}}}"))
    assert any(what in mistake for mistake in found), found


def test_a_diff_speaks_of_push_in_the_words_of_the_file() -> None:
    before = read_file(file_with_type("channels: {push: {title: T, body: B, ttl: 4h}}"))
    after = read_file(file_with_type("channels: {push: {title: T, body: B, android: {icon: bell}}}"))
    assert diff(before, after) == [
        "- event_types.made.channels.push.ttl: 4h",
        "+ event_types.made.channels.push.android.icon: bell",
    ]
