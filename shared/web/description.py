"""OpenAPI for bodies that are read by ``read_json``: the framework does not see them, so we describe them."""

from dataclasses import dataclass
from typing import Any

import msgspec
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody


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
