"""Requests that must be refused loudly: the right status, a problem that names the place, and nothing written."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest

from shared.store.database import Database
from shared.web.codes import FIELD_CODES
from shared.web.problems import PROBLEM_MEDIA_TYPE
from tests.fakes.ingest import Ingest, running_ingest
from tests.fakes.malformed import JSON, Malformed, malformed, written
from tests.fakes.postgres import Databases


@pytest.fixture(scope="module")
async def ingest(databases: Databases) -> AsyncIterator[Ingest]:
    """One for all: nothing here leaves anything behind."""
    async with databases.fresh() as url:
        database = Database(url)
        async with running_ingest(database) as running:
            yield running
        await database.close()


@pytest.mark.parametrize("request_", malformed(), ids=lambda request: request.name)
async def test_a_malformed_request_is_refused_by_name_and_leaves_nothing_behind(
    ingest: Ingest, request_: Malformed
) -> None:
    answer = await ingest.live.post("/api/v1/events", content=request_.content, headers=request_.headers)
    assert_problem(answer, request_.status)
    if request_.mistake is not None:
        assert request_.mistake in [(error["pointer"], error["code"]) for error in answer.json()["errors"]]
        assert all(error["detail"] and error["code"] in FIELD_CODES for error in answer.json()["errors"])
    assert await ingest.count("events") == await ingest.count("ledger") == 0
    assert ingest.announced == []


def test_there_are_many_and_each_is_another() -> None:
    requests = malformed()
    assert len({(one.content, *sorted(one.headers.items())) for one in requests}) == len(requests) >= 150


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


NO_EVENT = (404, "event_not_found")
NOTHING = (404, "not_found")
NOT_SO = (405, "method_not_allowed")


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/nothing/here", NOTHING),
        ("GET", "/api/v1/", NOTHING),
        ("GET", "/api/v2/events", NOTHING),
        ("GET", "/api/v1/jobs/job_1", NOTHING),
        ("GET", "/api/v1/events/evt_1/jobs", NOTHING),
        ("GET", "/API/V1/EVENTS", NOTHING),
        ("PUT", "/api/v1/events", NOT_SO),
        ("PATCH", "/api/v1/events", NOT_SO),
        ("DELETE", "/api/v1/events", NOT_SO),
        ("TRACE", "/api/v1/events", NOT_SO),
        ("POST", "/api/v1/jobs", NOT_SO),
        ("POST", "/api/v1/metrics", NOT_SO),
        ("POST", f"/api/v1/events/evt_{'0' * 32}", NOT_SO),
        ("DELETE", f"/api/v1/events/evt_{'0' * 32}", NOT_SO),
        ("GET", "/api/v1/events/evt_xyz", NO_EVENT),
        ("GET", f"/api/v1/events/evt_{'0' * 32}", NO_EVENT),
        ("GET", f"/api/v1/events/evt_{'0' * 31}", NO_EVENT),
        ("GET", f"/api/v1/events/evt_{'0' * 33}", NO_EVENT),
        ("GET", f"/api/v1/events/evt_{'f' * 32}", NO_EVENT),
        ("GET", f"/api/v1/events/EVT_{'0' * 32}", NO_EVENT),
        ("GET", f"/api/v1/events/evt_{'A' * 32}", NO_EVENT),
        ("GET", f"/api/v1/events/job_{'0' * 32}", NO_EVENT),
        ("GET", f"/api/v1/events/{'0' * 32}", NO_EVENT),
        ("GET", "/api/v1/events/01a22880-731a-7585-90dd-b4285948c700", NO_EVENT),
        ("GET", "/api/v1/events/%00", NO_EVENT),
        ("GET", "/api/v1/events/%FF%FE", NO_EVENT),
        ("GET", "/api/v1/events/..%2F..%2Fetc%2Fpasswd", None),
        ("GET", "/api/v1/events/1%20OR%201=1", NO_EVENT),
        ("GET", "/api/v1/events/" + "x" * 8_000, NO_EVENT),
        ("GET", "/api/v1/events/" + "%D9%A0" * 36, NO_EVENT),
    ],
)
async def test_addresses_and_methods_that_do_not_exist_are_problems_too(
    ingest: Ingest, method: str, path: str, expected: tuple[int, str] | None
) -> None:
    answer = await ingest.live.request(method, path)
    assert_problem(answer, answer.status_code)
    told = answer.status_code, answer.json()["code"]
    assert told == expected if expected else told in (NOTHING, NO_EVENT)
    assert ("Allow" in answer.headers) == (answer.status_code == 405)


@pytest.mark.parametrize(
    "raw",
    [
        b"hello\r\n\r\n",
        b"BREW /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
        b"GET /api/v1/events HTTP/9.9\r\n\r\n",
        b"GET /api/v1/events HTTP/1.1\r\nno colon here\r\n\r\n",
        b"POST /api/v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
        b"POST /api/v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/v1/events HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /api/v1/events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnot a size\r\n",
    ],
)
async def test_what_is_not_even_http_is_answered_with_a_problem(ingest: Ingest, raw: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(ingest.base_url).port)
    writer.write(raw)
    async with asyncio.timeout(20):
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 400 " in head.splitlines()[0]
        assert PROBLEM_MEDIA_TYPE.encode() in head
        told = msgspec.json.decode(await reader.read())
    writer.close()
    assert (told["status"], told["code"]) == (400, "bad_request")
    assert await ingest.count("events") == 0


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
