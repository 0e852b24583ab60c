"""OpenAPI for bodies that are read by ``read_json``: the framework does not see them, so we describe them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from litestar.openapi.spec import Components, OpenAPIMediaType, Operation, Reference, RequestBody

_REFERENCE = "#/components/schemas/{name}"


def takes_json(shape: type[msgspec.Struct]) -> type[Operation]:
    """The description of an operation whose body is a ``shape``."""

    @dataclass
    class TakesJson(Operation):
        def __post_init__(self) -> None:
            schema = Reference(ref=_REFERENCE.format(name=shape.__name__))
            self.request_body = RequestBody(
                content={"application/json": OpenAPIMediaType(schema=schema)}, required=True
            )

    return TakesJson


def describe(shapes: Sequence[type[msgspec.Struct]]) -> Components:
    """The JSON Schemas of ``shapes``, as msgspec gives them."""
    _, schemas = msgspec.json.schema_components(shapes, ref_template=_REFERENCE)
    described: Any = schemas
    return Components(schemas=described)
