"""YAML 1.2 and nothing else: what loaders read differently is refused or is what it looks like."""

from typing import Any

import pytest

from shared.errors import TenantFileError
from shared.tenantfile.load import load
from shared.tenantfile.nodes import Block, Report, nodes_under, plain_value


def read(text: str | bytes) -> Any:
    report = Report("f.yaml")
    node = load(text if isinstance(text, bytes) else text.encode(), report)
    report.raise_if_any()
    return plain_value(node)


def mistakes(text: str | bytes) -> list[str]:
    with pytest.raises(TenantFileError) as found:
        read(text)
    return found.value.mistakes


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *(("no", "no"), ("yes", "yes"), ("on", "on"), ("off", "off"), ("y", "y"), ("NO", "NO"), ("Yes", "Yes")),
        *(("22:30", "22:30"), ("1:2:3", "1:2:3"), ("12:30:45", "12:30:45")),
        *(("010", 10), ("0o10", 8), ("0x1F", 31), ("0b11", "0b11"), ("1_000", "1_000"), ("-7", -7), ("+7", 7)),
        *(("1.5", 1.5), (".5", 0.5), ("1e3", 1000.0), ("1.", 1.0), ("1.2.3", "1.2.3")),
        *(("true", True), ("TRUE", True), ("False", False), ("null", None), ("~", None), ("", None)),
        *(("'true'", "true"), ('"1"', "1"), ("'2026-12-01'", "2026-12-01"), ("'~'", "~"), ('"\\u00e9"', "é")),
        *(("24h", "24h"), ("20%", "20%"), ("=", "="), ("2026-12", "2026-12"), ("a b", "a b"), ("<<", "<<")),
    ],
)
def test_plain_scalars_follow_the_core_schema(written: str, value: object) -> None:
    read_value = read(f"a: {written}\n")["a"]
    assert read_value == value
    assert type(read_value) is type(value)


def test_folded_and_literal_text_is_what_yaml_says_and_nothing_else() -> None:
    assert read("a: >-\n  one\n  two\n\n  three\nb: |\n  one\n  two\n") == {"a": "one two\nthree", "b": "one\ntwo\n"}


def test_keys_are_text_whatever_they_look_like() -> None:
    assert read("no: 1\non: 2\n1: 3\ntrue: 4\n'quoted': 5\n") == {"no": 1, "on": 2, "1": 3, "true": 4, "quoted": 5}


@pytest.mark.parametrize(
    ("written", "what"),
    [
        ("2026-12-01", "looks like a date; put it in quotes"),
        ("2026-12-01T14:00:00Z", "looks like a date"),
        ("2026-12-01 14:00:00", "looks like a date"),
        (".inf", "is not a number JSON knows"),
        ("-.INF", "is not a number JSON knows"),
        (".nan", "is not a number JSON knows"),
        ("1e999", "too large a number"),
        ("1" * 5000, "too long for a number"),
        ("!!str 3", "tags"),
        ("!python/object:os.system x", "tags"),
        ("&x 3", "anchors"),
        ("*x", "aliases"),
        ("{<<: {b: 1}}", "merges"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(written: str, what: str) -> None:
    places = ("f.yaml:1:1 a: ", "f.yaml:1:5 a.<<: ")
    assert any(line.startswith(places) and what in line for line in mistakes(f"a: {written}\n"))


def test_duplicate_keys_are_refused_at_every_level_and_all_at_once() -> None:
    assert mistakes("a: {x: 1, 'x': 2}\nb: 1\nb: 2\n") == [
        "f.yaml:1:11 a.x: this key is given twice, first in line 1",
        "f.yaml:3:1 b: this key is given twice, first in line 2",
    ]


@pytest.mark.parametrize("text", ["%YAML 1.1\n---\na: 1\n", "%TAG ! tag:x,2026:\n---\na: 1\n"])
def test_directives_are_refused(text: str) -> None:
    assert "directives" in mistakes(text)[0]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "f.yaml:1:1: the file is empty"),
        ("# only a comment\n", "f.yaml:1:1: the file is empty"),
        ("--- {a: 1}\n--- {b: 1}\n", "f.yaml:2:1: only one document per file"),
        ("a: [1\n", "f.yaml:2:1: this is not YAML"),
        ("a:\n\t- b\n", "f.yaml:2:1: this is not YAML"),
        ("a: b: c\n", "f.yaml:1:5: this is not YAML"),
        ("a: \x07\n", "f.yaml:1:1: this is not YAML"),
        (b"a: 1\nb: \xff\n", "f.yaml:2:1: the file is not UTF-8"),
        ("? [a]\n: b\n", "f.yaml:1:3: a key must be plain text"),
        ("a: " + "[" * 100 + "]" * 100, "nested more than"),
        ("a: " + "[" * 20_000, "nested more than"),
        ("a: 1\n" * 300_000, "larger than"),
    ],
)
def test_what_cannot_be_read_says_where(text: str | bytes, what: str) -> None:
    assert what in mistakes(text)[0]


def test_a_byte_order_mark_and_windows_line_ends_are_taken() -> None:
    assert read(b"\xef\xbb\xbfa: |\r\n  one\r\n  two\r\nb: 1\r\n") == {"a": "one\ntwo\n", "b": 1}


def test_places_are_those_of_keys_and_list_items() -> None:
    report = Report("f.yaml")
    node = load(b"a:\n  b: [x, {c: 1}]\n  d:\n    - y\n", report)
    assert isinstance(node, Block)
    places = {each.place.path: (each.place.line, each.place.column) for each in nodes_under(node)}
    assert places == {
        "": (1, 1),
        "a": (1, 1),
        "a.b": (2, 3),
        "a.b[0]": (2, 7),
        "a.b[1]": (2, 10),
        "a.b[1].c": (2, 11),
        "a.d": (3, 3),
        "a.d[0]": (4, 7),
    }


@pytest.mark.parametrize("written", ['a: "x\\0y"', 'a: "x\\ud800y"', '"k\\0": x', 'a: ["\\ud83d\\ude00"]'])
def test_what_no_database_can_hold_is_refused_where_it_stands(written: str) -> None:
    (mistake,) = mistakes(written + "\n")
    assert mistake.startswith("f.yaml:1:")
    assert "NUL or half of a surrogate pair" in mistake
