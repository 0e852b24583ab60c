"""Shapes: what fits is converted, what does not is told whole, in words."""

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import pytest

from shared.web.instant import Instant, read_instant, write_instant
from shared.web.shape import read_shape


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    id: Annotated[str, msgspec.Meta(min_length=2, max_length=4)]
    note: str | None = None


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    inner: Inner
    tree: dict[str, Any]
    at: Instant | None = None
    on: bool = False
    count: int | None = None


GOOD: dict[str, Any] = {"inner": {"id": "abc"}, "tree": {"a": None}}


def test_what_fits_is_converted() -> None:
    fitted, errors = read_shape(GOOD | {"at": "2026-12-01T14:00:00+01:00", "count": 3, "on": True}, Outer)
    assert errors == []
    assert fitted is not None
    assert (fitted.inner.id, fitted.tree, fitted.count, fitted.on) == ("abc", {"a": None}, 3, True)


@pytest.mark.parametrize(
    ("changes", "pointer", "code", "detail"),
    [
        ({"inner": None}, "/inner", "missing", "is missing"),
        ({"inner": "x"}, "/inner", "type", "must be an object, not a text"),
        ({"inner": {}}, "/inner/id", "missing", "is missing"),
        ({"inner": {"id": None}}, "/inner/id", "missing", "is missing"),
        ({"inner": {"id": 5}}, "/inner/id", "type", "must be a text, not a number"),
        ({"inner": {"id": "a"}}, "/inner/id", "too_short", "must have at least 2 characters"),
        ({"inner": {"id": "abcde"}}, "/inner/id", "too_long", "has 5 characters, 4 are allowed"),
        ({"inner": {"id": "abc", "nite": "x"}}, "/inner/nite", "unknown_field", "is not known, did you mean note?"),
        ({"tree": []}, "/tree", "type", "must be an object, not an array"),
        ({"on": "yes"}, "/on", "type", "must be true or false, not a text"),
        ({"count": True}, "/count", "type", "must be a whole number, not true"),
        ({"at": 5}, "/at", "type", "must be an instant in a text, such as 2026-12-01T14:00:00Z, not a number"),
    ],
)
def test_a_misfit_is_told_in_words(changes: dict[str, Any], pointer: str, code: str, detail: str) -> None:
    fitted, (error,) = read_shape(GOOD | changes, Outer)
    assert fitted is None
    assert (error.pointer, error.code, error.detail) == (pointer, code, detail)


@pytest.mark.parametrize("tree", [None, 5, "x", [], True])
def test_a_body_that_is_no_object_is_told_so(tree: object) -> None:
    fitted, (error,) = read_shape(tree, Outer)
    assert fitted is None
    assert (error.pointer, error.code) == ("", "type")


def test_all_misfits_are_told_at_once_but_not_without_end() -> None:
    _, errors = read_shape({"inner": {"id": 1, "x": 1}, "tree": 2, "at": "x", "zzz": 0}, Outer)
    assert {error.pointer for error in errors} == {"/inner/id", "/inner/x", "/tree", "/at", "/zzz"}
    _, many = read_shape(GOOD | {f"field_{n}": n for n in range(1000)}, Outer)
    assert len(many) == 50


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-12-01T14:00:00Z", "2026-12-01T14:00:00Z"),
        ("2026-12-01T14:00:00+01:00", "2026-12-01T13:00:00Z"),
        ("2026-12-01T14:00:00.5-02:30", "2026-12-01T16:30:00.500000Z"),
        ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59-12:00", "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_instants_are_read_with_any_offset_and_written_in_utc(text: str, written: str) -> None:
    instant = read_instant(text)
    assert instant is not None
    assert write_instant(instant) == written


@pytest.mark.parametrize("text", ["2026-12-01T14:00:00", "2026-12-01", "2026-13-01T00:00:00Z", "now", "1764597600", 5])
def test_what_is_no_instant_with_an_offset_is_none(text: object) -> None:
    assert read_instant(text) is None


def test_an_instant_is_written_in_utc_whatever_zone_it_came_in() -> None:
    assert write_instant(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2026-01-02T03:04:05Z"
