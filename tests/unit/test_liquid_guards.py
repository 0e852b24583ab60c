"""Which templates the check of a tenant file lets through: tried both ways against a payload without its extras.

What is let through renders when every optional value is missing; what is refused for a missing guard would not.
"""

from datetime import UTC

import pytest
from babel import Locale

from shared.errors import RenderError
from shared.rendering.bounds import Budget, Voice
from shared.rendering.kinds import Kind
from shared.rendering.liquid import render
from tests.tenantfiles import file_saying, mistakes_in

BARE = {"course": "Algebra", "price": {"amount": "25.00"}, "lines": [{"title": "one"}]}

GUARDED = [
    "{% if payload.note %}{{ payload.note }}{% endif %}",
    "{% if payload.note %}{{ payload.note | upcase }}{% endif %}",
    "{{ payload.note | default: 'none' }}",
    "{{ payload.note | default: payload.course | upcase }}",
    "{% unless payload.note %}none{% else %}{{ payload.note }}{% endunless %}",
    "{% unless payload.note == nil %}{{ payload.note }}{% endunless %}",
    "{% if payload.note != nil %}{{ payload.note }}{% endif %}",
    "{% if payload.note == nil %}none{% else %}{{ payload.note }}{% endif %}",
    "{% if payload.kind == 'group' %}{{ payload.kind }}{% endif %}",
    "{% if payload.kind != 'group' %}none{% else %}{{ payload.kind }}{% endif %}",
    "{% case payload.kind %}{% when 'group', 'single' %}{{ payload.kind }}{% else %}none{% endcase %}",
    "{% if payload.note and payload.kind %}{{ payload.note }}{{ payload.kind }}{% endif %}",
    "{% if payload.note and payload.kind == 'x' or payload.note %}{{ payload.note }}{% endif %}",
    "{% if payload.count > 3 %}{{ payload.count }}{% endif %}",
    "{% if payload.count >= 3 %}{{ payload.count }}{% endif %}",
    "{% if payload.note contains 'a' %}{{ payload.note }}{% endif %}",
    "{% if payload.course == 'x' %}{% elsif payload.note %}{{ payload.note }}{% endif %}",
    "{% if payload.address %}{{ payload.address.city }}{% endif %}",
    "{% if payload.address.city %}{{ payload.address.city }}{% endif %}",
    "{% if payload.address.street %}{{ payload.address.street }} {{ payload.address.city }}{% endif %}",
    "{% if payload.price.hint %}{{ payload.price.hint }}{% endif %}",
    "{% for line in payload.lines %}{% if line.remark %}{{ line.remark }}{% endif %}{{ line.title }}{% endfor %}",
    "{% for line in payload.lines %}{{ line.remark | default: '-' }}{{ forloop.index }}{% endfor %}",
    "{% assign n = payload.course %}{{ n | upcase }}",
    "{% assign p = payload.price %}{{ p.amount }}{% if p.hint %}{{ p.hint }}{% endif %}",
    "{% if payload.note %}{% assign n = payload.note %}{{ n }}{% endif %}",
    "{% if payload.note %}{% assign n = 'a' %}{% else %}{% assign n = 'b' %}{% endif %}{{ n }}",
    "{% assign n = 'a' %}{% if payload.note %}{% assign n = payload.note %}{% endif %}{{ n }}",
    "{% capture c %}{{ payload.course }}{% endcapture %}{{ c | strip }}",
    "{{ payload.lines.size }} {{ payload.course.size }}",
    "{{ payload.lines | map: 'title' | join: ', ' }}",
    "{{ recipient.id }} {{ recipient.locale }} {{ recipient.name | default: 'you' }} {{ tenant.name }} {{ event.id }}",
]

UNGUARDED = [
    ("{{ payload.note }}", "payload.note"),
    ("{{ payload.note | upcase | default: 'x' }}", "payload.note"),
    ("{{ payload.course | append: payload.note }}", "payload.note"),
    ("{{ payload.note | default: payload.kind }}", "payload.kind"),
    ("{% if payload.note %}{% else %}{{ payload.note }}{% endif %}", "payload.note"),
    ("{% unless payload.note %}{{ payload.note }}{% endunless %}", "payload.note"),
    ("{% if payload.note or payload.course %}{{ payload.note }}{% endif %}", "payload.note"),
    ("{% if payload.note == payload.kind %}{{ payload.note }}{% endif %}", "payload.note"),
    ("{% if payload.note != 'x' %}{{ payload.note }}{% endif %}", "payload.note"),
    ("{% if payload.note != blank %}{{ payload.note }}{% endif %}", "payload.note"),
    ("{% if payload.note == nil %}{{ payload.note }}{% endif %}", "payload.note"),
    ("{% case payload.kind %}{% when 'a' %}{% else %}{{ payload.kind }}{% endcase %}", "payload.kind"),
    ("{% case payload.kind %}{% when nil %}{{ payload.kind }}{% endcase %}", "payload.kind"),
    ("{% if payload.note %}{% endif %}{{ payload.note }}", "payload.note"),
    ("{{ payload.address.city }}", "payload.address"),
    ("{% if payload.course %}{{ payload.address.street }}{% endif %}", "payload.address"),
    ("{{ payload.price.hint }}", "payload.price.hint"),
    ("{% for line in payload.lines %}{{ line.remark }}{% endfor %}", "line.remark"),
    ("{% assign n = payload.note %}{{ n }}", "payload.note"),
    ("{% for i in payload.note %}{{ i }}{% endfor %}", "payload.note"),
    ("{{ payload.lines.first.remark }}", "payload.lines.first"),
    ("{{ recipient.name }}", "recipient.name"),
    ("{{ recipient.email }}", "recipient.email"),
]

UNKNOWN = [
    ("{{ payload.tuttor }}", "unknown variable payload.tuttor"),
    ("{{ payload.cuorse }}", "unknown variable payload.cuorse, did you mean payload.course?"),
    ("{{ course }}", "unknown variable course, did you mean payload.course?"),
    ("{{ paylod.course }}", "unknown variable paylod.course, did you mean payload?"),
    ("{{ payload.price.amont }}", "unknown variable payload.price.amont, did you mean payload.price.amount?"),
    ("{{ payload.nope | default: 'x' }}", "unknown variable payload.nope"),
    ("{% if payload.nope %}{% endif %}", "unknown variable payload.nope"),
    ("{% case payload.nope %}{% when 1 %}{% endcase %}", "unknown variable payload.nope"),
    ("{% for line in payload.lines %}{{ line.titel }}{% endfor %}", "unknown variable line.titel"),
    ("{{ payload.course.length }}", "unknown variable payload.course.length"),
    ("{% if payload.note %}{% assign n = 'a' %}{% endif %}{{ n }}", "unknown variable n"),
    ("{% for line in payload.lines %}{% assign n = 'a' %}{% endfor %}{{ n }}", "unknown variable n"),
    ("{% for line in payload.lines %}{% endfor %}{{ line.title }}", "unknown variable line.title"),
    ("{{ recipient.phone }}", "unknown variable recipient.phone"),
    ("{{ payload[payload.course] }}", "looked up by another value"),
    ("{{ payload.price }}", "is an object and cannot be printed; name one of its fields: amount, hint"),
    ("{{ payload.lines }}", "is a list; write a for, or | join"),
]


def write_bare(template: str) -> str:
    variables = {
        "payload": BARE,
        "recipient": {"id": "bob", "locale": "en"},
        "tenant": {"name": "Acme"},
        "event": {"id": "evt_1"},
    }
    return render(template, Kind.TEXT, "body", variables, Voice(Locale("en"), UTC), Budget())


@pytest.mark.parametrize("template", GUARDED)
def test_a_guarded_value_is_let_through_and_renders_without_it(template: str) -> None:
    assert mistakes_in(file_saying(template)) == []
    write_bare(template)


@pytest.mark.parametrize(("template", "name"), UNGUARDED)
def test_an_unguarded_optional_value_is_refused(template: str, name: str) -> None:
    mistakes = mistakes_in(file_saying(template))
    assert f"event_types.made.channels.inapp.body: {name} is optional: put it between" in mistakes[-1]


@pytest.mark.parametrize(("template", "_name"), UNGUARDED)
def test_what_is_refused_would_have_failed_or_printed_nothing(template: str, _name: str) -> None:
    try:
        assert write_bare(template).strip() == ""
    except RenderError as exc:
        assert "undefined" in str(exc)


@pytest.mark.parametrize(("template", "what"), UNKNOWN)
def test_a_value_that_does_not_exist_is_refused(template: str, what: str) -> None:
    assert any(what in mistake for mistake in mistakes_in(file_saying(template)))
