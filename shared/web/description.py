"""OpenAPI for what the framework does not see, because we read it ourselves: bodies and the parameters of lists."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from litestar.openapi.spec import OpenAPIMediaType, Operation, Parameter, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIFormat, OpenAPIType

from shared.web.query import DEFAULT_LIMIT, LARGEST_LIMIT, Filter


def takes_json(shape: type[msgspec.Struct]) -> type[Operation]:
    """The description of an operation whose body is a ``shape``."""
    _, schemas = msgspec.json.schema_components([shape], ref_template="{name}")
    schema: Any = _inline(schemas[shape.__name__], schemas)

    @dataclass
    class TakesJson(Operation):
        def __post_init__(self) -> None:
            self.request_body = RequestBody(
                content={"application/json": OpenAPIMediaType(schema=schema)}, required=True
            )

    return TakesJson


def takes_page(filters: Sequence[Filter] = ()) -> type[Operation]:
    """The description of an operation that gives a page of a list with ``filters``."""
    limit = Schema(type=OpenAPIType.INTEGER, minimum=1, maximum=LARGEST_LIMIT, default=DEFAULT_LIMIT)
    text = Schema(type=OpenAPIType.STRING)
    parameters: list[Any] = [
        *(Parameter(one.name, "query", schema=_schema_of(one), description=one.description) for one in filters),
        Parameter("limit", "query", schema=limit, description="How many at most."),
        Parameter("cursor", "query", schema=text, description="next_cursor of the page before, with the same filters."),
    ]

    @dataclass
    class TakesPage(Operation):
        def __post_init__(self) -> None:
            self.parameters = parameters

    return TakesPage


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
