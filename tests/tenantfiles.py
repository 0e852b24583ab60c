"""Tenant files for tests: a small valid one, and what the check says about another."""

import json
from pathlib import Path
from textwrap import dedent, indent

from shared.errors import TenantFileError
from shared.tenant import EventType, Tenant
from shared.tenantfile.check import check

HEAD = """
waybill: 1
tenant: acme
name: Acme
website: https://acme.example
locales: [en, de]
timezone: Europe/Berlin
"""

PAYLOAD = """
type: object
additionalProperties: false
required: [course, lines, price]
properties:
  course: {type: string}
  note: {type: string}
  kind: {type: string}
  count: {type: integer}
  price:
    type: object
    required: [amount]
    properties:
      amount: {type: string}
      hint: {type: string}
  address:
    type: object
    required: [city]
    properties:
      city: {type: string}
      street: {type: string}
  lines:
    type: array
    items:
      type: object
      required: [title]
      properties:
        title: {type: string}
        remark: {type: string}
"""

EXAMPLE = """
course: Algebra
note: a note
kind: group
count: 3
price: {amount: "25.00", hint: cheap}
address: {city: Ulm, street: Neue Strasse}
lines: [{title: one, remark: first}]
"""


def read_file(text: str, folder: Path = Path(), name: str = "acme.yaml") -> Tenant:
    """The tenant of a whole file."""
    return check(dedent(text).lstrip().encode(), name, folder).tenant


def mistakes_in(text: str, folder: Path = Path()) -> list[str]:
    """What the check says about a whole file, without the file's name; empty when it is right."""
    try:
        read_file(text, folder)
    except TenantFileError as exc:
        return [line.removeprefix("acme.yaml:") for line in exc.mistakes]
    return []


def file_with_type(event_type: str) -> str:
    """A file with one event type ``made``, written without its payload and example."""
    block = indent(dedent(event_type).strip(), "    ")
    payload, example = indent(PAYLOAD.strip(), "      "), indent(EXAMPLE.strip(), "      ")
    return f"{HEAD}event_types:\n  made:\n    payload:\n{payload}\n    example:\n{example}\n{block}\n"


def file_saying(template: str) -> str:
    """A file whose one event type says ``template`` as the body of its inbox entry."""
    return file_with_type(f"channels: {{inapp: {{title: T, body: {json.dumps(template)}}}}}")


def event_type_of(text: str, name: str = "made") -> EventType:
    """One event type of a whole file."""
    return read_file(text).event_types[name]
