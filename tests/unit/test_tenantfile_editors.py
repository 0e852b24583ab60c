"""The JSON Schema for editors knows exactly the keys that the check knows, and takes every shipped file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from shared.tenantfile.editors import tenant_schema
from shared.tenantfile.load import load
from shared.tenantfile.nodes import Report, plain_value
from shared.tenantfile.section import Section
from tests.tenantfiles import HEAD, file_with_type, read_file

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = tenant_schema()
WHOLE = (
    file_with_type("""
    to: {id: owner, email: owner@acme.example}
    retry: {attempts: 3}
    message: {title: T, body: B, link: {url: /a}}
    channels:
      inapp: {data: {a: b}, retry: {attempts: 3}}
      email: {link: {url: /b}, retry: {attempts: 3}}
      push: {android: {icon: a}, apple: {sound: a}, web: {icon: /a}, retry: {attempts: 3}}
    """)
    + """
retention: {events: 90d}
defaults: {retry: {attempts: 3}}
categories: {news: {title: News}}
partials: {greeting: Hello}
senders:
  email: {from: a@acme.example, relay: {url: {env: A}}, per_second: 5}
  push: {fcm: {service_account: {file: a}}}
"""
)
"""A file with every mapping there is."""


def plain(text: str) -> Any:
    return plain_value(load(text.encode(), Report("f.yaml")))


def at(path: str) -> Iterator[dict[str, Any]]:
    """The schemas of the mapping at ``path`` of a file."""
    found = [SCHEMA]
    for step in path.split(".") if path else []:
        found = [inner for schema in found for inner in _under(schema, step)]
    yield from found


def _under(schema: dict[str, Any], step: str) -> Iterator[dict[str, Any]]:
    inner = schema["properties"][step] if step in schema.get("properties", {}) else schema["additionalProperties"]
    if reference := inner.get("$ref"):
        inner = SCHEMA["$defs"][reference.rpartition("/")[2]]
    yield from inner.get("oneOf", [inner])


def test_it_knows_exactly_the_keys_that_the_check_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, set[str]] = {}
    close = Section.close

    def note_and_close(section: Section) -> None:
        asked.setdefault(section.node.place.path, set()).update(section.asked)
        close(section)

    monkeypatch.setattr(Section, "close", note_and_close)
    read_file(WHOLE)
    assert len(asked) > 20
    for path, keys in asked.items():
        assert {key for schema in at(path) for key in schema["properties"]} == keys, path


@pytest.mark.parametrize("name", ["campus", "portfolio", "storefront"])
def test_every_shipped_file_fits(name: str) -> None:
    text = (ROOT / "examples" / name / f"{name}.yaml").read_text("utf-8")
    assert [error.message for error in jsonschema_rs.iter_errors(SCHEMA, plain(text))] == []


@pytest.mark.parametrize(
    "wrong",
    [
        "nmae: Acme",
        "senders: {email: {from: a@b.example, relay: {url: 'smtps://secret'}}}",
        "defaults: {lane: express}",
        "defaults: {expires_after: 24}",
        "categories: {news: {title: {en: {text: x}}}}",
    ],
)
def test_what_the_check_would_refuse_is_marked(wrong: str) -> None:
    assert not jsonschema_rs.is_valid(SCHEMA, plain(f"{HEAD}event_types: {{}}\n{wrong}\n"))
    assert jsonschema_rs.is_valid(SCHEMA, plain(f"{HEAD}event_types: {{}}\n"))
