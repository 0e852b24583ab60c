"""Problems: one table of codes, and nothing in the product that is not in it."""

import ast
import json
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from shared.errors import FieldError
from shared.web.codes import FIELD_CODES, PROBLEM_CODES
from shared.web.problem_page import PAGE
from shared.web.problems import encode_problem, malformed_json, problem, unauthorized, validation_failed

ROOT = Path(__file__).resolve().parents[2]
CONSTRUCTORS: dict[str, tuple[int, Collection[str]]] = {
    "problem": (0, PROBLEM_CODES),
    "unauthorized": (0, PROBLEM_CODES),
    "FieldError": (1, FIELD_CODES),
}


def used_codes() -> Iterator[tuple[str, str, str]]:
    """Every code that stands as a word in a call that makes a problem or a mistake: file, constructor, code."""
    for folder in ("services", "shared"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CONSTRUCTORS:
                    at, _ = CONSTRUCTORS[node.func.id]
                    for word in ast.walk(node.args[at]) if len(node.args) > at else ():
                        if isinstance(word, ast.Constant) and isinstance(word.value, str):
                            yield str(path.relative_to(ROOT)), node.func.id, word.value


def test_every_code_in_the_product_is_in_the_table() -> None:
    found = list(used_codes())
    assert len(found) > 20
    assert [entry for entry in found if entry[2] not in CONSTRUCTORS[entry[1]][1]] == []


def test_every_code_has_an_anchor_on_the_page() -> None:
    for code in (*PROBLEM_CODES, *FIELD_CODES):
        assert f'<dt id="{code}">' in PAGE


def test_no_code_means_two_things() -> None:
    assert not PROBLEM_CODES.keys() & FIELD_CODES.keys()


def test_a_problem_says_all_of_it() -> None:
    made = validation_failed([FieldError("/a", "missing", "is missing"), FieldError("/b", "type", "must be a text")])
    assert json.loads(encode_problem(made, "req_1")) == {
        "type": "/problems#validation_failed",
        "title": PROBLEM_CODES["validation_failed"].title,
        "status": 422,
        "code": "validation_failed",
        "detail": "/a: is missing (and 1 more)",
        "request_id": "req_1",
        "errors": [
            {"pointer": "/a", "code": "missing", "detail": "is missing"},
            {"pointer": "/b", "code": "type", "detail": "must be a text"},
        ],
    }


def test_an_unknown_code_cannot_be_raised() -> None:
    with pytest.raises(KeyError):
        problem("no_such_code", "x")


@pytest.mark.parametrize(
    ("code", "challenge"),
    [("key_missing", 'Bearer realm="waybill"'), ("key_revoked", 'Bearer realm="waybill", error="invalid_token"')],
)
def test_an_unauthorized_answer_carries_its_challenge(code: str, challenge: str) -> None:
    assert unauthorized(code, "x").headers == {"WWW-Authenticate": challenge}


def test_a_problem_lists_a_bounded_number_of_mistakes() -> None:
    made = malformed_json([FieldError(f"/{n}", "type", "x") for n in range(1000)])
    assert len(json.loads(encode_problem(made, ""))["errors"]) == 50
