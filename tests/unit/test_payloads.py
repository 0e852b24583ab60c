"""Payloads against their schema: every mistake with its pointer, nothing fetched, nothing quoted."""

import pytest

from shared.errors import FieldError
from shared.ids import ScopeId, TenantId
from shared.payloads import MAX_ERRORS, Checker, Checkers, SchemaError
from shared.tenant import EventType, Mode, ScopedTenant, Tenant

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["course", "starts_at"],
    "properties": {
        "course": {"type": "string", "maxLength": 5},
        "starts_at": {"type": "string", "format": "date-time"},
        "price": {"type": "object", "additionalProperties": False, "properties": {"amount": {"type": "string"}}},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
    },
}


def test_a_payload_that_fits_has_no_errors() -> None:
    assert Checker(SCHEMA).errors({"course": "Maths", "starts_at": "2026-12-01T14:00:00+01:00"}) == []


def test_every_mistake_is_found_with_its_pointer_and_a_suggestion() -> None:
    errors = Checker(SCHEMA).errors(
        {"course": "secret secret", "price": {"amuont": "1"}, "tags": ["a", "c"], "a/b~c": 1, "starts": "x"}
    )
    assert sorted(errors, key=lambda error: error.pointer) == [
        FieldError("/payload/a~1b~0c", "unknown_field", "is not known"),
        FieldError("/payload/course", "invalid", "the value is longer than 5 characters"),
        FieldError("/payload/price/amuont", "unknown_field", "is not known, did you mean amount?"),
        FieldError("/payload/starts", "unknown_field", "is not known, did you mean starts_at?"),
        FieldError("/payload/starts_at", "missing", "is missing"),
        FieldError("/payload/tags/1", "invalid", 'the value is not one of "a" or "b"'),
    ]
    assert "secret" not in str(errors)


@pytest.mark.parametrize("payload", [[], "x", 3, None, True])
def test_a_payload_that_is_no_object_is_refused(payload: object) -> None:
    assert [error.pointer for error in Checker(SCHEMA).errors(payload)] == ["/payload"]


@pytest.mark.parametrize("at", ["2026-12-01", "2026-12-01T14:00:00", "tomorrow", "2026-13-01T14:00:00Z"])
def test_formats_are_checked(at: str) -> None:
    (error,) = Checker(SCHEMA).errors({"course": "x", "starts_at": at})
    assert error.pointer == "/payload/starts_at"


def test_errors_are_capped() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    assert len(Checker(schema).errors({str(n): n for n in range(1000)})) == MAX_ERRORS


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "file:///etc/hostname"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "#/$defs/nothing"},
        {"properties": {"a": {"pattern": "(?=a)"}}},
        {"properties": {"a": {"pattern": "(a+)+\\1"}}},
        {"properties": {"a": {"format": "datetime"}}},
        {"type": "strin"},
    ],
)
def test_a_schema_that_reaches_outside_or_is_none_is_refused(schema: dict[str, object]) -> None:
    with pytest.raises(SchemaError):
        Checker(schema)


def test_checkers_are_compiled_once_per_version() -> None:
    def scoped(version: int, schema: dict[str, object]) -> ScopedTenant:
        tenant = Tenant("a", "A", ("en",), event_types={"x": EventType("x", "X", schema, {})})
        return ScopedTenant(ScopeId(1), TenantId(1), Mode.LIVE, version, tenant)

    checkers, first, second = (
        Checkers(),
        scoped(1, {"type": "object"}),
        scoped(2, {"type": "object", "minProperties": 1}),
    )
    one = checkers.of(first, first.tenant.event_types["x"])
    assert checkers.of(first, first.tenant.event_types["x"]) is one
    assert one.errors({}) == []
    assert len(checkers.of(second, second.tenant.event_types["x"]).errors({})) == 1
