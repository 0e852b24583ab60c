"""What several hundred replies blame: codes, stages and key words of many servers, the rest in our own words.

``replies.tsv`` beside this file: ``class`` is right, ``also_ok`` can be lived with. Where an address would be
suppressed without cause, or a failure taken for a delivery, nothing can be.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.email.replies import Cause, classify

TABLE = Path(__file__).with_name("replies.tsv")
FATAL = {Cause.RECIPIENT, Cause.ACCEPTED}
RIGHT_AT_LEAST = 0.92


@dataclass(frozen=True)
class Row:
    """One reply and the classes that are right for it, the best one first."""

    stage: str
    code: int
    text: str
    allowed: tuple[Cause, ...]


def rows() -> list[Row]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [
            Row(
                row["stage"],
                int(row["code"]),
                row["text"].replace("\\n", "\n"),
                tuple(Cause(word) for word in (row["class"], *(row["also_ok"] or "").split(",")) if word),
            )
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]


def judged(row: Row) -> Cause:
    return Cause(classify(row.stage, row.code, row.text))


def test_the_table_has_every_class_many_times() -> None:
    best = [row.allowed[0] for row in rows()]
    assert {cause: best.count(cause) >= 5 for cause in Cause} == dict.fromkeys(Cause, True)


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row.stage}-{row.code}-{row.text[:40]}")
def test_every_reply_is_read_in_a_way_that_can_be_lived_with(row: Row) -> None:
    assert judged(row) in row.allowed


def test_most_replies_are_read_in_the_best_way() -> None:
    right = sum(judged(row) is row.allowed[0] for row in rows())
    assert right >= RIGHT_AT_LEAST * len(rows())


@pytest.mark.parametrize("row", [row for row in rows() if not FATAL & set(row.allowed)], ids=lambda row: row.text[:50])
@pytest.mark.parametrize("stage", ["rcpt", "data", "eod"])
def test_no_living_address_is_suppressed_whenever_it_is_said(row: Row, stage: str) -> None:
    assert classify(stage, row.code, row.text) not in FATAL


@pytest.mark.parametrize("row", [row for row in rows() if not FATAL & set(row.allowed)], ids=lambda row: row.text[:50])
@pytest.mark.parametrize("frame", ["<x@y.example>: Recipient address rejected: {}", "Not delivered to x@y.example: {}"])
def test_no_living_address_is_suppressed_because_a_frame_names_it(row: Row, frame: str) -> None:
    assert classify("rcpt", row.code, frame.format(row.text)) not in FATAL
