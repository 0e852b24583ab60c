"""Requests that must be refused loudly: the right status, a problem that names the place, and nothing written."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from shared.store.database import Database
from shared.web.problems import PROBLEM_MEDIA_TYPE
from tests.fakes.ingest import Ingest, body, running_ingest

JSON = {"Content-Type": "application/json"}
GOOD = json.dumps(body()).encode()


def written(**changes: Any) -> bytes:
    return json.dumps(body(**changes)).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in body().items() if key != name}).encode()


MALFORMED = [
    ("wrong shape", b"[1, 2]", JSON, 422, ["", "type"]),
    ("a text for an object", written(payload="x"), JSON, 422, ["/payload", "type"]),
    ("a number for a text", written(recipient={"id": 7}), JSON, 422, ["/recipient/id", "type"]),
    ("missing field", without("recipient"), JSON, 422, ["/recipient", "missing"]),
    ("null for a field", written(payload=None), JSON, 422, ["/payload", "missing"]),
    ("missing key", without("idempotency_key"), JSON, 422, ["/idempotency_key", "missing"]),
    ("key too long", written(idempotency_key="k" * 256), JSON, 422, ["/idempotency_key", "too_long"]),
    ("empty key", written(idempotency_key=""), JSON, 422, ["/idempotency_key", "too_short"]),
    ("unknown type", written(event_type="booking_confirmd"), JSON, 422, ["/event_type", "unknown_event_type"]),
    ("schema break", written(payload={"course": 5}), JSON, 422, ["/payload/course", "invalid"]),
    ("schema: missing", written(payload={}), JSON, 422, ["/payload/course", "missing"]),
    ("unknown field", written(recipent=1), JSON, 422, ["/recipent", "unknown_field"]),
    (
        "unknown field within",
        written(recipient={"id": "b", "mail": "x"}),
        JSON,
        422,
        ["/recipient/mail", "unknown_field"],
    ),
    ("NUL in a text", written(payload={"course": "a\0b"}), JSON, 400, ["/payload/course", "nul_character"]),
    ("raw NUL", GOOD.replace(b"Algebra", b"Alg\0bra"), JSON, 400, ["", "nul_character"]),
    ("lone surrogate", written(payload={"course": "a\ud800"}), JSON, 400, ["/payload/course", "lone_surrogate"]),
    ("surrogate in a key", written(payload={"a\udc00": 1}), JSON, 400, ["/payload/a?", "lone_surrogate"]),
    ("nesting 10,000", b'{"payload": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", JSON, 400, ["", "too_deep"]),
    ("bad UTF-8", GOOD.replace(b"Algebra", b"Alg\xffbra"), JSON, 400, ["", "not_utf8"]),
    ("byte order mark", b"\xef\xbb\xbf" + GOOD, JSON, 400, ["", "byte_order_mark"]),
    ("duplicate keys", b'{"payload": {"a": 1, "a": 2}}', JSON, 400, ["/payload/a", "duplicate_key"]),
    ("cut off", GOOD[:-5], JSON, 400, ["", "syntax"]),
    ("empty", b"", JSON, 400, ["", "syntax"]),
    ("NaN", GOOD.replace(b'"Algebra"', b"NaN"), JSON, 400, ["/payload/course", "not_a_number"]),
    ("a huge number", GOOD.replace(b'"Algebra"', b"1e999"), JSON, 400, ["/payload/course", "number_out_of_range"]),
    ("a long number", GOOD.replace(b'"Algebra"', b"9" * 5000), JSON, 400, ["/payload/course", "number_out_of_range"]),
    ("text/plain", GOOD, {"Content-Type": "text/plain"}, 415, []),
    ("no type", GOOD, {}, 415, []),
    ("Latin-1", GOOD, {"Content-Type": "application/json; charset=latin-1"}, 415, []),
    ("compressed", GOOD, JSON | {"Content-Encoding": "gzip"}, 415, []),
    ("1 MB", written(payload={"course": "x" * 1_000_000}), JSON, 413, []),
    ("no address", written(recipient={"id": "b", "email": "bob"}), JSON, 422, ["/recipient/email", "address"]),
    (
        "two addresses",
        written(recipient={"id": "b", "email": "a@b.de,c@d.de"}),
        JSON,
        422,
        ["/recipient/email", "address"],
    ),
    ("no locale", written(recipient={"id": "b", "locale": "xx-YY"}), JSON, 422, ["/recipient/locale", "locale"]),
    (
        "no zone",
        written(recipient={"id": "b", "timezone": "Mars/Dune"}),
        JSON,
        422,
        ["/recipient/timezone", "timezone"],
    ),
    ("a naive instant", written(send_at="2026-12-01T14:00:00"), JSON, 422, ["/send_at", "instant"]),
    ("far ahead", written(send_at="2999-01-01T00:00:00Z"), JSON, 422, ["/send_at", "too_far_ahead"]),
    ("expired", written(expires_at="2020-01-01T00:00:00Z"), JSON, 422, ["/expires_at", "expires_too_early"]),
    (
        "key in header and body",
        GOOD,
        JSON | {"Idempotency-Key": "other"},
        422,
        ["/idempotency_key", "idempotency_key_conflict"],
    ),
]


@pytest.fixture
async def ingest(database: Database) -> AsyncIterator[Ingest]:
    async with running_ingest(database) as running:
        yield running


async def test_malformed_requests_are_refused_by_name_and_leave_nothing_behind(
    ingest: Ingest, subtests: pytest.Subtests
) -> None:
    for name, content, headers, status, mistake in MALFORMED:
        with subtests.test(name):
            answer = await ingest.live.post("/api/v1/events", content=content, headers=headers)
            assert_problem(answer, status)
            if mistake:
                assert mistake in [[error["pointer"], error["code"]] for error in answer.json()["errors"]]
    assert await ingest.count("events") == 0
    assert await ingest.count("ledger") == 0
    assert ingest.announced == []


async def test_every_mistake_is_told_at_once(ingest: Ingest) -> None:
    wrong = written(event_typ="x", recipient={"email": "bob", "locale": "xx"}, payload={"seats": 101}, ref="")
    answer = await ingest.live.post("/api/v1/events", content=wrong, headers=JSON)
    assert_problem(answer, 422)
    assert {(error["pointer"], error["code"]) for error in answer.json()["errors"]} == {
        ("/event_typ", "unknown_field"),
        ("/recipient/id", "missing"),
        ("/recipient/email", "address"),
        ("/recipient/locale", "locale"),
        ("/payload/seats", "invalid"),
        ("/payload/course", "missing"),
        ("/ref", "too_short"),
    }


async def test_a_misspelt_type_and_field_are_met_with_the_right_word(ingest: Ingest) -> None:
    wrong = written(event_type="booking_confirmd", reff="x")
    errors = (await ingest.live.post("/api/v1/events", content=wrong, headers=JSON)).json()["errors"]
    details = {error["pointer"]: error["detail"] for error in errors}
    assert details["/event_type"].endswith("did you mean booking_confirmed?")
    assert details["/reff"].endswith("did you mean ref?")


async def test_a_large_body_without_a_length_is_cut_off(ingest: Ingest) -> None:
    sent = 0

    async def pour() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 4_000_000:
            sent += 65_536
            yield b"x" * 65_536

    answer = await ingest.live.post("/api/v1/events", content=pour(), headers=JSON)
    assert_problem(answer, 413)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing/here", 404, "not_found"),
        ("DELETE", "/api/v1/events", 405, "method_not_allowed"),
        ("GET", "/api/v1/events/evt_xyz", 404, "event_not_found"),
        ("GET", f"/api/v1/events/evt_{'0' * 32}", 404, "event_not_found"),
    ],
)
async def test_addresses_that_do_not_exist_are_problems_too(
    ingest: Ingest, method: str, path: str, status: int, code: str
) -> None:
    answer = await ingest.live.request(method, path)
    assert_problem(answer, status)
    assert answer.json()["code"] == code
    assert ("Allow" in answer.headers) == (status == 405)


async def test_the_request_id_is_taken_cleaned_and_given_back(ingest: Ingest) -> None:
    given = await ingest.live.get("/nothing", headers=[(b"X-Request-Id", "abc-1/ 2;é".encode())])
    assert given.headers["X-Request-Id"] == given.json()["request_id"] == "abc-1/2"
    made = await ingest.live.get("/nothing")
    assert made.headers["X-Request-Id"] == made.json()["request_id"]
    assert made.json()["request_id"].startswith("req_")


async def test_every_type_of_problem_is_explained_at_its_address(ingest: Ingest) -> None:
    type_ = (await ingest.live.get("/nothing")).json()["type"]
    page = await ingest.live.get(type_)
    assert page.status_code == 200
    assert f'id="{type_.partition("#")[2]}"' in page.text


def assert_problem(answer: httpx.Response, status: int) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == PROBLEM_MEDIA_TYPE
    problem = answer.json()
    assert problem.keys() == {"type", "title", "status", "code", "detail", "request_id", "errors"}
    assert problem["status"] == status
    assert problem["detail"]
    assert problem["request_id"] == answer.headers["X-Request-Id"]
