"""What a tenant file compiles to: terms from three levels, schemas, and what changes from one to the next."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from shared.channel import Channel
from shared.job import Lane
from shared.retry import DEFAULT_POLICIES, RetryPolicy
from shared.store.tenantfiles import decode_model, encode_model
from shared.tenant import ChannelTerms, EmailSender, EventType, Tenant
from shared.tenantfile.check import check
from shared.tenantfile.diff import diff
from tests.tenantfiles import HEAD, event_type_of, file_with_type, mistakes_in, read_file


def terms(defaults: str, event_type: str, inapp: str) -> ChannelTerms:
    text = file_with_type(f"{event_type}\nchannels: {{inapp: {{title: T, body: B{inapp and ', '}{inapp}}}}}")
    rule = event_type_of(f"{text}defaults: {{{defaults}}}\n").inapp
    assert rule is not None
    return rule.how


def test_nothing_said_means_the_channels_own_terms() -> None:
    how = terms("", "", "")
    assert how.terms.retry == DEFAULT_POLICIES[Channel.INAPP]
    assert (how.lane, how.expires_after, how.terms.on_unknown) == (Lane.TRANSACTIONAL, timedelta(hours=24), "resend")


def test_the_nearest_level_wins_key_by_key() -> None:
    how = terms(
        "lane: bulk, expires_after: 48h, on_unknown: hold, retry: {attempts: 9, backoff: 10s, jitter: 50%}",
        "lane: transactional\nexpires_after: 3h\nretry: {attempts: 5}",
        "expires_after: 1h, retry: {multiplier: 3}",
    )
    assert (how.lane, how.expires_after, how.terms.on_unknown) == (Lane.TRANSACTIONAL, timedelta(hours=1), "hold")
    assert how.terms.retry == RetryPolicy(5, timedelta(seconds=10), 3.0, 0.5, timedelta(hours=24))


def test_a_backoff_as_written_is_not_doubled_behind_its_authors_back() -> None:
    text = file_with_type("channels: {email: {subject: S, text: T, retry: {attempts: 3, backoff: 2h}}}")
    rule = event_type_of(text).email
    assert rule is not None
    assert rule.how.terms.retry == RetryPolicy(3, timedelta(hours=2), 1.0, 0.2, timedelta(hours=24))
    assert rule.how.terms.retry.horizon() == timedelta(hours=4)


@pytest.mark.parametrize(
    ("retry", "warned"),
    [("", False), (", retry: {attempts: 3, backoff: 60s}", True), (", retry: {attempts: 3, backoff: 30m}", False)],
)
def test_mail_that_gives_up_within_an_hour_is_warned_of(retry: str, warned: bool) -> None:
    text = file_with_type(f"channels: {{email: {{subject: S, text: T{retry}}}}}")
    warnings = check(text.lstrip().encode(), "acme.yaml", Path()).warnings
    assert [warning.split(":")[0] for warning in warnings] == ["event_types.made.channels.email"] * warned


def test_a_mail_without_words_of_its_own_says_what_the_message_says() -> None:
    rule = event_type_of(file_with_type("message: {title: T, body: B}\nchannels: {email: {}}")).email
    assert rule is not None
    assert (rule.subject, rule.title, rule.text, rule.markdown) == (both("T"), both("T"), both("B"), None)


def both(text: str) -> dict[str, str]:
    return {"en": text, "de": text}


def test_the_sender_is_read_from_a_mailbox() -> None:
    head = HEAD + "senders: {email: {from: 'Acme & Söhne <hello@acme.example>', reply_to: help@acme.example}}\n"
    tenant = read_file(head + "event_types: {}\n")
    assert tenant.senders.email == EmailSender("hello@acme.example", "Acme & Söhne", "help@acme.example")


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ('"Acme, Inc."', "Acme, Inc."),
        (r'"The \"real\" Acme"', 'The "real" Acme'),
        ('The "real"', 'The "real"'),
        ('""', None),
        ("  Acme   Inc  ", "Acme Inc"),
    ],
)
def test_the_senders_name_may_be_quoted_as_in_a_mail(written: str, name: str | None) -> None:
    tenant = read_file(f"{HEAD}senders: {{email: {{from: '{written} <hello@acme.example>'}}}}\nevent_types: {{}}\n")
    assert tenant.senders.email == EmailSender("hello@acme.example", name)


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        ("{type: object, properties: {a: {type: string, maxLenght: 3}}}", "maxLenght: unknown keyword maxLenght, did"),
        ("{type: object, properties: {a: {type: strin}}}", "type: unknown type strin, did you mean string?"),
        ("{type: object, properties: {a: {format: datetime}}}", "unknown format datetime, did you mean date-time?"),
        ("{type: object, properties: {a: {pattern: '(?=a)'}}}", "a.pattern: is no pattern, or needs look-around"),
        ("{type: object, properties: {a: {pattern: '(a)\\1'}}}", "patterns run in linear time"),
        ("{type: object, properties: {a: {$ref: 'file:///etc/passwd'}}}", "$ref may only point into this schema"),
        ("{type: object, properties: {a: {$ref: 'http://x.example'}}}", "$ref may only point into this schema"),
        ("{type: object, properties: {a: {$ref: '#/$defs/b'}}}", "does not exist"),
        ("{type: object, $id: 'http://x.example'}", "$id is refused"),
        ("{type: object, allOf: [{propertys: {}}]}", "allOf[0].propertys: unknown keyword propertys, did you mean"),
        ("{type: object, properties: {a: {maxLength: -1}}}", "a.maxLength: the value is less than the minimum"),
        ("{type: string}", "payload: must have type: object"),
        ("true", "payload: must be a JSON Schema"),
    ],
)
def test_a_schema_that_is_none_is_refused(payload: str, what: str) -> None:
    text = f"{HEAD}event_types: {{a: {{payload: {payload}, channels: {{inapp: {{title: T, body: B}}}}}}}}\n"
    assert any(what in mistake for mistake in mistakes_in(text)), mistakes_in(text)


def test_references_alternatives_and_open_objects_are_followed() -> None:
    payload = """{type: object, required: [who, any, map, list], properties: {
      who: {$ref: '#/$defs/person'}, any: {anyOf: [{required: [a], properties: {a: {type: string}}}, {}]},
      map: {type: object, additionalProperties: {type: string}},
      list: {type: array, minItems: 1, items: {$ref: '#/$defs/person'}}, nothing: {type: [string, 'null']}},
      $defs: {person: {type: object, required: [name], properties: {name: {type: string}}}}}"""
    example = "{who: {name: Ada}, any: {a: x}, map: {k: v}, list: [{name: Bob}], nothing: null}"
    body = (
        "{{ payload.who.name }}{{ payload.list.first.name }}{{ payload.list[0].name }}"
        "{% if payload.any.a %}{{ payload.any.a }}{% endif %}{% if payload.map.k %}{{ payload.map.k }}{% endif %}"
    )

    def found(text: str) -> list[str]:
        channel = f'channels: {{inapp: {{title: T, body: "{text}"}}}}'
        return mistakes_in(f"{HEAD}event_types: {{a: {{payload: {payload}, example: {example}, {channel}}}}}\n")

    assert found(body) == []
    for optional in ("payload.any.a", "payload.map.k", "payload.list[1].name", "payload.nothing"):
        assert any("is optional" in mistake for mistake in found(f"{{{{ {optional} }}}}")), optional


def test_a_schema_that_refers_to_itself_ends() -> None:
    around = "allOf: [{$ref: '#/$defs/a'}, {$ref: '#/$defs/a'}]"
    payload = f"{{type: object, $defs: {{a: {{{around}}}}}, {around}, properties: {{x: {{$ref: '#'}}}}}}"
    channel = 'channels: {inapp: {title: T, body: "{% if payload.x.x.x %}{{ payload.y }}{% endif %}"}}'
    (mistake,) = mistakes_in(f"{HEAD}event_types: {{a: {{payload: {payload}, {channel}}}}}\n")
    assert "unknown variable payload.y" in mistake


def test_an_example_that_does_not_fit_says_where() -> None:
    text = f"""{HEAD}
event_types:
  a:
    payload:
      {{type: object, required: [x], properties: {{x: {{type: string}}, l: {{type: array, items: {{type: integer}}}}}}}}
    example: {{l: [1, two]}}
    channels: {{inapp: {{title: T, body: B}}}}
"""
    assert [mistake.split(" ", 1)[1] for mistake in mistakes_in(text)] == [
        "event_types.a.example: does not fit the payload schema: x is missing",
        'event_types.a.example.l[1]: does not fit the payload schema: the value is not of type "integer"',
    ]
    assert any("example is missing" in mistake for mistake in mistakes_in(text.replace("    example", "    # ")))


def test_a_model_survives_its_json_and_fields_of_other_releases() -> None:
    tenant = read_file(
        file_with_type("channels: {inapp: {title: T, body: B, data: {a: b}}, email: {subject: S, text: T}}")
    )
    assert decode_model(encode_model(tenant)) == tenant
    older = msgspec.json.decode(encode_model(tenant))
    older["of_a_later_release"] = {"x": 1}
    del older["app_link_schemes"], older["event_types"]["made"]["lane"], older["event_types"]["made"]["inapp"]["icon"]
    assert decode_model(msgspec.json.encode(older).decode()) == tenant


def test_a_diff_says_what_changes_in_the_words_of_the_file() -> None:
    before = read_file(
        file_with_type("channels: {inapp: {title: T, body: B}, email: {subject: S, text: T}}")
        + "categories: {old: {title: Old}}\n"
    )
    after = read_file(
        file_with_type(
            "expires_after: 2h\nchannels: {inapp: {title: {en: T, de: Titel}, body: B, retry: {attempts: 9}}}"
        )
        + "  other:\n    channels: {inapp: {title: A, body: B}}\ncategories: {new: {title: New}}\n"
    )
    assert diff(None, after) == ["+ tenant acme (Acme), event types: made, other"]
    assert diff(after, after) == []
    lines = diff(before, replace(after, name="Acme & Co"))
    assert set(lines) >= {
        "~ name: Acme → “Acme & Co”",
        "- categories.old",
        "+ categories.new",
        "~ event_types.made.expires_after: 24h → 2h",
        "~ event_types.made.channels.inapp.title.de: T → Titel",
        "~ event_types.made.channels.inapp.retry.attempts: 3 → 9",
        "- event_types.made.channels.email.subject.en: S",
        "+ event_types.other",
    }
    assert not any("other." in line for line in lines)


def test_every_event_type_lists_its_channels() -> None:
    assert isinstance(event_type_of(file_with_type("channels: {email: {subject: S, text: T}}")), EventType)
    assert event_type_of(file_with_type("channels: {email: {subject: S, text: T}}")).channels() == (Channel.EMAIL,)


def test_a_tenant_needs_very_little() -> None:
    tenant = read_file("{waybill: 1, tenant: a, name: A, event_types: {x: {channels: {inapp: {title: T, body: B}}}}}")
    assert tenant == Tenant("a", "A", ("en",), event_types=tenant.event_types)
