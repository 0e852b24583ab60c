"""The strict reading of JSON: everything sound comes through exactly, everything else is refused with its place."""

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import Problem
from shared.web.strict import DEEPEST, parse_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=20)


def mistakes(raw: bytes) -> list[tuple[str, str]]:
    with pytest.raises(Problem) as caught:
        parse_json(raw)
    assert (caught.value.status, caught.value.code) == (400, "malformed_json")
    return [(error.pointer, error.code) for error in caught.value.errors]


@given(TREES, st.booleans())
def test_every_sound_value_comes_through(tree: Any, ensure_ascii: bool) -> None:
    assert parse_json(json.dumps(tree, ensure_ascii=ensure_ascii).encode()) == json.loads(
        json.dumps(tree), parse_float=Decimal
    )


@given(st.binary(max_size=200))
def test_no_bytes_at_all_raise_anything_but_the_problem(raw: bytes) -> None:
    try:
        parse_json(raw)
    except Problem as exc:
        assert exc.code == "malformed_json"
        assert exc.errors


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"1", 1),
        (b"1.0", Decimal("1.0")),
        (b"1.00", Decimal("1.00")),
        (b"-0.0", Decimal("-0.0")),
        (b"9007199254740993", 9007199254740993),
        (b"1e-400", Decimal("1e-400")),
        (b'"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
    ],
)
def test_numbers_keep_their_digits_and_pairs_become_one_character(raw: bytes, expected: object) -> None:
    found = parse_json(raw)
    assert type(found) is type(expected)
    assert str(found) == str(expected)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"a": {"b": 1, "b": 2}, "a": 3}', [("/a/b", "duplicate_key"), ("/a", "duplicate_key")]),
        (b'{"a/b~c": ["\\u0000"]}', [("/a~1b~0c/0", "nul_character")]),
        (b'{"a\\u0000": 1}', [("/a\0", "nul_character")]),
        (b'["ok", "\\udc00\\ud800"]', [("/1", "lone_surrogate")]),
        (b"[1e999, -1e999]", [("/0", "number_out_of_range"), ("/1", "number_out_of_range")]),
        (b"[NaN, -Infinity]", [("/0", "not_a_number"), ("/1", "not_a_number")]),
        (b"[1e-99999999999999999999]", [("/0", "number_out_of_range")]),
        (b'{"a": 1, "a": 2', [("", "syntax")]),
        (b'{"a": 1} {}', [("", "syntax")]),
        (b"\xc3", [("", "not_utf8")]),
        (b"\xed\xa0\x80", [("", "not_utf8")]),
        ("{}".encode("utf-16"), [("", "nul_character")]),
    ],
)
def test_everything_unsound_is_named_with_its_place(raw: bytes, expected: list[tuple[str, str]]) -> None:
    assert mistakes(raw) == expected


def test_the_deepest_nesting_that_is_allowed_is_read() -> None:
    assert parse_json(b"[" * DEEPEST + b"]" * DEEPEST) is not None
    assert mistakes(b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1)) == [("", "too_deep")]


def test_brackets_in_texts_do_not_count_as_nesting() -> None:
    text = "[{" * 500 + '\\"' + "[" * 500
    assert parse_json(b'"' + text.encode() + b'"') == text.replace('\\"', '"')


def test_many_flat_arrays_are_not_deep() -> None:
    assert parse_json(b"[" + b",".join([b"[]"] * 1000) + b"]") == [[]] * 1000


def test_no_more_mistakes_are_listed_than_anybody_reads() -> None:
    raw = b"[" + b",".join([b"NaN"] * 5000) + b"]"
    assert len(mistakes(raw)) == 50


@pytest.mark.parametrize("opening", [b'"' + b'\\"' * 100_000, b"[]" * 100_000, b'{"a":' * 40_000, b'"\\' * 100_000])
def test_hostile_bodies_are_refused_in_linear_time(opening: bytes) -> None:
    # Quadratic scanning would take minutes here and run into the suite's timeout.
    mistakes(opening)


def test_a_number_is_refused_exactly_where_other_programs_could_no_longer_read_it() -> None:
    assert parse_json(b"1e308") == Decimal("1e308")
    assert math.isinf(float("1e309"))
    assert mistakes(b"1e309") == [("", "number_out_of_range")]
    assert parse_json(b"9" * 308) == int("9" * 308)
    assert mistakes(b"9" * 309) == [("", "number_out_of_range")]
