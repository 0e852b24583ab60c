"""Partials: texts that a tenant file names once, and that its templates take in."""

import json
from pathlib import Path

import pytest

from tests.tenantfiles import HEAD, event_type_of, file_saying, mistakes_in, read_file

PARTIALS = """
partials:
  terms: {en: "Until {{ payload.course }} begins.", de: "Bis {{ payload.course }} beginnt."}
  signature: Your team at {{ tenant.name }}
  wrong: |
    Fine.
    {{ payload.tutor }}
  nested: "{% render 'signature' %}"
"""


def saying(template: str) -> str:
    return PARTIALS + file_saying(template)


def said(template: str) -> dict[str, str]:
    rule = event_type_of(saying(template)).inapp
    assert rule is not None
    return dict(rule.body)


def test_a_partial_is_put_in_in_the_locale_of_what_takes_it_in() -> None:
    assert said("A. {% render 'terms' %} {% render \"signature\" %}") == {
        "en": "A. Until {{ payload.course }} begins. Your team at {{ tenant.name }}",
        "de": "A. Bis {{ payload.course }} beginnt. Your team at {{ tenant.name }}",
    }


def test_dashes_take_the_blanks_away_as_everywhere() -> None:
    assert said("A \n {%- render 'signature' -%} \n B")["en"] == "AYour team at {{ tenant.name }}B"


def test_a_layout_takes_partials_in_from_files(tmp_path: Path) -> None:
    (tmp_path / "footer.liquid").write_text("<p>{{ tenant.name }}</p>\n", "utf-8")
    (tmp_path / "layout.liquid").write_text("<b>{{ content }}</b>\n{% render 'footer' %}\n", "utf-8")
    partials = "partials: {footer: {file: footer.liquid}}\n"
    file = HEAD + partials + "email_layout: {file: layout.liquid}\nevent_types: {}\n"
    assert read_file(file, tmp_path).email_layout == "<b>{{ content }}</b>\n<p>{{ tenant.name }}</p>\n"


@pytest.mark.parametrize(
    ("template", "what"),
    [
        ("{% render 'signatur' %}", "unknown partial signatur, did you mean signature?"),
        ("{% render signature %}", "write {% render 'name' %}"),
        ("{% render 'signature', course: 'x' %}", "write {% render 'name' %}"),
        ("{% render 'signature' with payload %}", "write {% render 'name' %}"),
        ("{% render %}", "write {% render 'name' %}"),
        ("{% render 'nested' %}", "partial nested takes in another one, which is not built"),
        ("{% redner 'signature' %}", "unknown tag redner, did you mean render?"),
        ("{% include 'signature' %}", "unknown tag include"),
    ],
)
def test_what_cannot_be_put_in_is_refused(template: str, what: str) -> None:
    assert any(what in mistake for mistake in mistakes_in(saying(template))), mistakes_in(saying(template))


def test_a_mistake_in_a_partial_is_told_by_its_own_lines() -> None:
    (mistake,) = mistakes_in(saying("One.\n{% render 'wrong' %}"))
    assert mistake.endswith("partial wrong line 2: unknown variable payload.tutor")


def test_lines_behind_a_partial_are_counted_as_they_were_written() -> None:
    found = mistakes_in(saying("One.\n{% render 'terms' %}\nThree {{ payload.tutor }}"))
    assert any("line 3: unknown variable payload.tutor" in mistake for mistake in found), found
    (mistake,) = mistakes_in(
        saying("{% render 'wrong' %}\nTwo {{ payload.kind }}").replace("payload.tutor", "event.id")
    )
    assert "line 2: payload.kind is optional" in mistake


def test_a_template_for_all_locales_takes_in_no_text_that_is_another_in_each(tmp_path: Path) -> None:
    (tmp_path / "layout.liquid").write_text("{{ content }}\n{% render 'terms' %}", "utf-8")
    found = mistakes_in(f"{HEAD}{PARTIALS}email_layout: {{file: layout.liquid}}\nevent_types: {{}}\n", tmp_path)
    assert any("layout.liquid line 2: partial terms is another text in each locale" in mistake for mistake in found)


@pytest.mark.parametrize("name", ["1st", "a b", "ä"])
def test_a_name_that_no_template_could_say_is_refused(name: str) -> None:
    file = f"{HEAD}partials: {{{json.dumps(name)}: x}}\nevent_types: {{}}\n"
    assert any("a name begins with a letter" in mistake for mistake in mistakes_in(file))
