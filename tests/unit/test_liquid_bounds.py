"""Templates that would run away: refused when compiled, or ended by a limit when rendered."""

import gc
import time
from datetime import UTC
from typing import Any

import pytest
from babel import Locale

from shared.errors import RenderError
from shared.rendering.bounds import MAX_ITEMS, MAX_SOURCE_CHARACTERS, Budget, Voice
from shared.rendering.kinds import Kind
from shared.rendering.liquid import TemplateMistakes, compile_template, render


def write(source: str, budget: Budget | None = None, **payload: object) -> str:
    voice = Voice(Locale("en"), UTC)
    return render(source, Kind.TEXT, "body.en", {"payload": payload}, voice, budget or Budget())


@pytest.mark.parametrize(
    "source",
    [
        "{{ (1..100000000) | join: ',' }}",
        "{{ (1..3) }}",
        "{% assign r = (1..100000000) %}",
        "{% for i in payload.l limit: (1..9) %}{% endfor %}",
        "{% if (1..9) contains 3 %}{% endif %}",
        "{% case (1..9) %}{% when 1 %}{% endcase %}",
        "{% case 1 %}{% when (1..9) %}{% endcase %}",
        "{{ 'a' | append: (1..100000000) }}",
    ],
)
def test_a_range_outside_a_for_is_refused(source: str) -> None:
    with pytest.raises(TemplateMistakes, match="may only stand in a for"):
        compile_template(source, Kind.TEXT)


def test_a_range_in_a_for_has_plain_and_near_bounds() -> None:
    assert write("{% for i in (1..3) %}{{ i }}{% endfor %}") == "123"
    compile_template(f"{{% for i in (1..{MAX_ITEMS}) %}}{{% endfor %}}", Kind.TEXT)
    with pytest.raises(TemplateMistakes, match="more than 1000 numbers"):
        compile_template(f"{{% for i in (0..{MAX_ITEMS}) %}}{{% endfor %}}", Kind.TEXT)
    with pytest.raises(TemplateMistakes, match="must be plain numbers"):
        compile_template("{% for i in (1..payload.n) %}{% endfor %}", Kind.TEXT)


MANY = "{% for i in (1..1000) %}"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (f"{MANY}{MANY}{{% endfor %}}{{% endfor %}}", "loops more than"),
        (f"{MANY}{{% endfor %}}" * 11, "loops more than"),
        (f"{MANY}{{{{ payload.long }}}}{{% endfor %}}", "output stream limit"),
        (f"{MANY}{{% capture c %}}{{{{ c }}}}{{{{ payload.long }}}}{{% endcapture %}}{{% endfor %}}", "undefined"),
        ("{% assign c = 'a' %}" + f"{MANY}{{% assign c = c | append: c %}}{{% endfor %}}", "would have more than"),
        ("{% assign n = 9 %}" + f"{MANY}{{% assign n = n | times: n %}}{{% endfor %}}", "too large a number"),
        (MANY + "{% comment %}{% endcomment %}" * 2000 + "{% endfor %}", "too many steps|too long"),
        (MANY + "{% if 1 == 2 %}{% endif %}" * 2000 + "{% endfor %}", "too many steps|too long"),
        (
            "{% for j in (1..9) %}"
            + MANY
            + "{% if 1 == 2 %}"
            + "{% elsif 1 == 2 %}" * 2000
            + "{% endif %}{% endfor %}{% endfor %}",
            "too long",
        ),
        ("{{ payload.long | replace: 'a', payload.long }}", "would have more than"),
        ("{{ payload.long | replace: '', payload.long }}", "would have more than"),
        ("{{ payload.list | join: payload.long }}", "would have more than"),
        ("{{ payload.long | split: '' }}", "would have more than"),
        ("{{ payload.nested | uniq }}", "would have more than"),
        ("{{ payload.nested | sort }}", "would have more than"),
        ("{{ '1e99999999' | money: 'EUR' }}", "needs an amount"),
        ("{{ '1E+99999999' | times: 2 | floor }}", "too large a number"),
        ("{{ payload.huge }}", "cannot work with"),
        ("{{ payload.huge | plus: 1 }}", "too large a number"),
    ],
)
def test_what_grows_without_end_is_ended(source: str, why: str) -> None:
    payload: dict[str, Any] = {
        "long": "a" * 100_000,
        "list": ["x"] * 900,
        "nested": [list(range(50_000))],
        "huge": 10**5000,
    }
    with pytest.raises(RenderError, match=why):
        write(source, **payload)


def test_the_limits_count_over_all_templates_of_a_channel() -> None:
    budget = Budget()
    loop = f"{MANY}x{{% endfor %}}"
    for _ in range(10):
        write(loop, budget)
    with pytest.raises(RenderError, match="loops more than"):
        write(loop, budget)


def test_the_clock_is_the_net_below_the_counts() -> None:
    with pytest.raises(RenderError, match="takes too long"):
        write("{% for i in (1..100) %}{{ i }}{% endfor %}", Budget(cpu_seconds=0))


def test_a_template_longer_than_the_limit_is_refused() -> None:
    compile_template("a" * MAX_SOURCE_CHARACTERS, Kind.TEXT)
    with pytest.raises(TemplateMistakes, match="longer than"):
        compile_template("a" * (MAX_SOURCE_CHARACTERS + 1), Kind.TEXT)


def test_blocks_nested_without_end_are_refused() -> None:
    with pytest.raises(TemplateMistakes, match="nesting limit"):
        compile_template("{% if a %}" * 500 + "{% endif %}" * 500, Kind.TEXT)


def test_a_break_outside_a_loop_is_refused() -> None:
    with pytest.raises(TemplateMistakes, match="outside a for"):
        compile_template("{% if a %}{% break %}{% endif %}", Kind.TEXT)
    assert write("{% for i in (1..9) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "12"


def test_errors_name_template_line_and_variable_but_never_the_value() -> None:
    with pytest.raises(RenderError, match=r"body\.en, line 2: payload\.nmae is undefined"):
        write("Hi\n{{ payload.nmae }}", name="x")
    with pytest.raises(RenderError, match=r"body\.en, line 2: .*offset.* in \{\{ payload\.at \| datetime") as found:
        write("Hi\n{{ payload.at | datetime: format: 'HH:mm' }}", at="geheim")
    assert "geheim" not in str(found.value)
    for source in ("{{ payload.at | plus: 1 }}{{ payload.at | divided_by: 0 }}", "{{ payload.at | map: 'x' }}"):
        try:
            write(source, at="geheim")
        except RenderError as exc:
            assert "geheim" not in str(exc)


def test_every_mistake_of_a_template_is_found_at_once() -> None:
    source = "{{ a | upcas }}\n{{ a | date: '%d' }}\n{{ a | escape }}{{ a[b] }}"
    with pytest.raises(TemplateMistakes) as found:
        compile_template(source, Kind.TEXT)
    assert [(mistake.line, mistake.what) for mistake in found.value.mistakes] == [
        (1, "unknown filter upcas, did you mean upcase?"),
        (2, "unknown filter date, use datetime: format: '…'"),
        (3, "unknown filter escape, values are escaped by themselves"),
        (3, "a[b] is looked up by another value; name the field itself"),
    ]


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("{% iff a %}", "unknown tag iff, did you mean if"),
        ("{% if a %}", "expected tag endif"),
        ("{% else %}", "unexpected tag 'else'"),
        ("{% if a %}{% else %}{% else %}{% endif %}", "expected tag endif"),
        ("a\n{{ a", "line 2: expected '}}'"),
        ("{{ a b }}", "expected end of expression"),
    ],
)
def test_what_is_no_liquid_is_said_plainly(source: str, what: str) -> None:
    with pytest.raises(TemplateMistakes, match=what):
        compile_template(source, Kind.TEXT)


def test_a_garbage_collection_in_the_middle_costs_the_template_nothing() -> None:
    budget = Budget(cpu_seconds=0.05)
    litter: list[list[object]] = [[] for _ in range(300_000)]
    began = time.thread_time()
    while time.thread_time() - began < 0.5:
        gc.collect()
    for _ in range(64):
        budget.step()
    assert len(litter) == 300_000
