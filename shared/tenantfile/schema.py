"""The JSON Schema of an event type's payload: misspelt keywords and everything that reaches outside is refused."""

from collections.abc import Iterator
from typing import Any

from shared.payloads import Checker, SchemaError
from shared.suggestion import did_you_mean
from shared.tenantfile.nodes import Block, Listing, Node, Report, Scalar, find_node, plain_value

_ONE = frozenset(
    (
        *("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"),
        *("unevaluatedItems", "unevaluatedProperties"),
    )
)
_MANY = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_NAMED = frozenset(("$defs", "dependentSchemas", "patternProperties", "properties"))
_PLAIN = frozenset(
    (
        *("$comment", "$ref", "const", "default", "dependentRequired", "deprecated", "description", "enum"),
        *("examples", "exclusiveMaximum", "exclusiveMinimum", "format", "maxContains", "maxItems", "maxLength"),
        *("maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum"),
        *("multipleOf", "pattern", "readOnly", "required", "title", "type", "uniqueItems", "writeOnly"),
    )
)
_KEYWORDS = _ONE | _MANY | _NAMED | _PLAIN
_REFUSED = {
    "$anchor": "name the schema under $defs and refer to it with #/$defs/…",
    "$dynamicAnchor": "schemas that change by context are refused",
    "$dynamicRef": "schemas that change by context are refused",
    "$id": "the schema has no address of its own; refer within it with #/$defs/…",
    "$schema": "leave it out, it is always JSON Schema 2020-12",
}
_FORMATS = (
    *("date", "date-time", "duration", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6", "iri"),
    *("iri-reference", "json-pointer", "regex", "relative-json-pointer", "time", "uri", "uri-reference"),
    *("uri-template", "uuid"),
)
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def read_schema(node: Node, report: Report) -> dict[str, Any] | None:
    """The schema under ``node``, or None when anything is wrong with it."""
    before = report.count
    if not isinstance(node, Block):
        report.add(node.place, "must be a JSON Schema, a mapping")
        return None
    kind = node.entries.get("type")
    if not isinstance(kind, Scalar) or kind.value != "object":
        report.add(node.place, "must have type: object")
    _check(node, report)
    if report.count > before:
        return None
    schema: dict[str, Any] = plain_value(node)
    try:
        Checker(schema)
    except SchemaError as exc:
        place, rest = find_node(node, exc.path)
        report.add(place.place, f"{'.'.join(map(str, rest))}{': ' if rest else ''}{exc}")
        return None
    return schema


def _check(schema: Node, report: Report) -> None:
    if isinstance(schema, Scalar) and isinstance(schema.value, bool):
        return
    if not isinstance(schema, Block):
        report.add(schema.place, "must be a schema, a mapping")
        return
    for keyword, node in schema.entries.items():
        _check_keyword(keyword, node, report)
        for inner in _schemas_under(keyword, node):
            _check(inner, report)


def _check_keyword(keyword: str, node: Node, report: Report) -> None:
    if keyword in _REFUSED:
        report.add(node.place, f"{keyword} is refused: {_REFUSED[keyword]}")
    elif keyword not in _KEYWORDS:
        report.add(node.place, f"unknown keyword {keyword}{did_you_mean(keyword, _KEYWORDS)}")
    match keyword, node:
        case "$ref", Scalar(value=str() as reference) if reference != "#" and not reference.startswith("#/"):
            report.add(node.place, "$ref may only point into this schema, like #/$defs/…")
        case "format", Scalar(value=str() as name) if name not in _FORMATS:
            report.add(node.place, f"unknown format {name}{did_you_mean(name, _FORMATS)}")
        case "type", Scalar(value=str() as name) if name not in _TYPES:
            report.add(node.place, f"unknown type {name}{did_you_mean(name, _TYPES)}")
        case _:
            pass


def _schemas_under(keyword: str, node: Node) -> Iterator[Node]:
    if keyword in _ONE:
        yield node
    elif keyword in _MANY and isinstance(node, Listing):
        yield from node.items
    elif keyword in _NAMED and isinstance(node, Block):
        yield from node.entries.values()
