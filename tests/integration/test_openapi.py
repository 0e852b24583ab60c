"""The description of the API: who may call, and every answer that may come."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from shared.keys import OPERATIONS
from shared.store.database import Database
from shared.web.codes import PROBLEM_CODES
from shared.web.problems import PROBLEM_MEDIA_TYPE
from tests.fakes.ingest import Ingest, running_ingest
from tests.fakes.malformed import malformed

EVERYWHERE = {"401", "403", "500", "503"}
WITH_BODY = {"400", "408", "413", "415", "422"}


@pytest.fixture
async def ingest(database: Database) -> AsyncIterator[Ingest]:
    async with running_ingest(database) as running:
        yield running


@pytest.fixture
async def described(ingest: Ingest) -> dict[str, Any]:
    answer = await ingest.live.get("/api/v1/openapi.json")
    assert answer.status_code == 200
    document: dict[str, Any] = answer.json()
    return document


def operations(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, calls in described["paths"].items():
        for operation in calls.values():
            yield path, operation


async def test_every_operation_asks_for_a_key_and_says_what_may_go_wrong(described: dict[str, Any]) -> None:
    scheme = described["components"]["securitySchemes"]["bearer"]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    assert described["security"] == [{"bearer": []}]
    seen = set()
    for path, operation in operations(described):
        seen.add(operation["operationId"])
        answers = operation["responses"]
        wanted = EVERYWHERE | (WITH_BODY if "requestBody" in operation else set()) | ({"404"} if "{" in path else set())
        assert wanted <= answers.keys(), operation["operationId"]
        for status, answer in answers.items():
            if int(status) >= 400:
                schema = answer["content"][PROBLEM_MEDIA_TYPE]["schema"]
                assert schema["$ref"].rpartition("/")[2] in described["components"]["schemas"]
                codes = [code for code, known in PROBLEM_CODES.items() if f"`{code}`" in answer["description"]]
                assert codes, answer["description"]
                assert {PROBLEM_CODES[code].status for code in codes} == {int(status)}
    assert seen == OPERATIONS.keys()


async def test_a_problem_is_described_as_it_comes(ingest: Ingest, described: dict[str, Any]) -> None:
    told = (await ingest.live.get("/api/v1/events?limit=0")).json()
    schemas = described["components"]["schemas"]
    assert schemas["ProblemOut"]["properties"].keys() == told.keys()
    assert schemas["FieldError"]["properties"].keys() == told["errors"][0].keys()


async def test_whatever_a_malformed_request_is_told_is_described(described: dict[str, Any]) -> None:
    answers = described["paths"]["/api/v1/events"]["post"]["responses"]
    assert {str(one.status) for one in malformed()} <= answers.keys()


async def test_lists_describe_their_filters(described: dict[str, Any]) -> None:
    for path, names in {
        "/api/v1/events": "event_type status outcome ref recipient received_after received_before limit cursor",
        "/api/v1/jobs": "channel status reason event_type limit cursor",
        "/api/v1/jobs/failed": "channel reason event_type failed_after failed_before limit cursor",
        "/api/v1/changes": "after limit",
    }.items():
        parameters = described["paths"][path]["get"]["parameters"]
        assert [parameter["name"] for parameter in parameters] == names.split()
        assert all(parameter["description"] for parameter in parameters)
        assert "422" in described["paths"][path]["get"]["responses"]
    (outcome,) = (p for p in described["paths"]["/api/v1/events"]["get"]["parameters"] if p["name"] == "outcome")
    assert "410" in described["paths"]["/api/v1/changes"]["get"]["responses"]
    assert "partly_sent" in outcome["schema"]["enum"]
