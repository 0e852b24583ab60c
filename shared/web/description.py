"""OpenAPI for what the framework does not see, because we do it ourselves: bodies, parameters of lists, problems."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIMediaType, Operation, Parameter, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIFormat, OpenAPIType

from shared.web.codes import PROBLEM_CODES
from shared.web.problems import PROBLEM_MEDIA_TYPE, ProblemOut
from shared.web.query import DEFAULT_LIMIT, LARGEST_LIMIT, Filter

KEY_CODES = ("key_missing", "key_malformed", "key_unknown", "key_expired", "key_revoked", "permission_missing")
BODY_CODES = ("malformed_json", "body_too_slow", "body_too_large", "unsupported_media_type")
ALWAYS = ("bad_request", "internal_error", "unavailable")


def answers(*codes: str) -> dict[int, ResponseSpec]:
    """The description of the problems called ``codes``, and of those that may always come, by their status."""
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys((*codes, *ALWAYS)):
        by_status.setdefault(PROBLEM_CODES[code].status, []).append(code)
    return {
        status: ResponseSpec(
            ProblemOut,
            description="; ".join(f"`{code}`: {PROBLEM_CODES[code].title}" for code in of_status),
            media_type=PROBLEM_MEDIA_TYPE,
            generate_examples=False,
        )
        for status, of_status in sorted(by_status.items())
    }


def describe_answers(route: HTTPRouteHandler) -> None:
    """Have the description of ``route``, which needs a key, name every problem it may answer with."""
    codes = [*KEY_CODES]
    if any("{" in path for path in route.paths):
        kinds = ("event", "job")
        found = next((kind for kind in kinds if kind in str(route.operation_id)), None)
        codes.append("not_found" if found is None else f"{found}_not_found")
        codes.append("validation_failed")
    if issubclass(route.operation_class, _ReadsRequest):
        codes += [*route.operation_class.codes, "validation_failed"]
    route.responses = {**answers(*codes), **(route.responses or {})}


class _ReadsRequest(Operation):
    """An operation that reads what came with the request; ``codes``: what may be wrong with how it came."""

    codes: ClassVar[tuple[str, ...]] = ()


def takes_json(shape: type[msgspec.Struct], *more_codes: str, required: bool = True) -> type[Operation]:
    """The description of an operation whose body is a ``shape``; ``more_codes``: problems that only it has.

    Not ``required``: the body may be left out.
    """
    _, schemas = msgspec.json.schema_components([shape], ref_template="{name}")
    schema: Any = _inline(schemas[shape.__name__], schemas)

    @dataclass
    class TakesJson(_ReadsRequest):
        codes: ClassVar[tuple[str, ...]] = (*BODY_CODES, *more_codes)

        def __post_init__(self) -> None:
            self.request_body = RequestBody(
                content={"application/json": OpenAPIMediaType(schema=schema)}, required=required
            )

    return TakesJson


def takes_page(filters: Sequence[Filter] = ()) -> type[Operation]:
    """The description of an operation that gives a page of a list with ``filters``."""
    text = Schema(type=OpenAPIType.STRING)
    return takes_parameters(
        filters,
        _limit(),
        Parameter("cursor", "query", schema=text, description="next_cursor of the page before, with the same filters."),
    )


def takes_place() -> type[Operation]:
    """The description of an operation that gives a page of a feed."""
    number = Schema(type=OpenAPIType.INTEGER, minimum=0)
    told = "seq of the last change you have; 0 or left out: from the beginning, left out also if that is purged."
    return takes_parameters((), Parameter("after", "query", schema=number, description=told), _limit())


def takes_parameters(filters: Sequence[Filter], *more: Parameter) -> type[Operation]:
    """The description of an operation with ``filters`` and ``more`` in its address."""
    parameters: list[Any] = [
        Parameter(one.name, "query", schema=_schema_of(one), description=one.description) for one in filters
    ]

    @dataclass
    class TakesParameters(_ReadsRequest):
        def __post_init__(self) -> None:
            self.parameters = [*parameters, *more]

    return TakesParameters


def _limit() -> Parameter:
    schema = Schema(type=OpenAPIType.INTEGER, minimum=1, maximum=LARGEST_LIMIT, default=DEFAULT_LIMIT)
    return Parameter("limit", "query", schema=schema, description="How many at most.")


def _schema_of(one: Filter) -> Schema:
    if one.words:
        return Schema(type=OpenAPIType.STRING, enum=list(one.words))
    return Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.DATE_TIME if one.is_instant else None)


def _inline(schema: Any, schemas: dict[str, Any]) -> Any:
    """``schema`` with every reference replaced by what it refers to: Litestar fills the shared part by itself."""
    match schema:
        case {"$ref": str(name)}:
            return _inline(schemas[name], schemas)
        case dict():
            return {key: _inline(value, schemas) for key, value in schema.items()}
        case list():
            return [_inline(value, schemas) for value in schema]
        case _:
            return schema
