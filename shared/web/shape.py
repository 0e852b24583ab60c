"""The shape of a body: msgspec decides, and this says everything that is wrong at once, with pointers.

msgspec stops at the first mistake. Only a body that it refused is walked here, field by field.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from shared.errors import FieldError
from shared.suggestion import did_you_mean
from shared.web.instant import read_instant
from shared.web.pointer import child, printable
from shared.web.problems import MOST_ERRORS

S = TypeVar("S", bound=msgspec.Struct)


def read_shape(tree: object, shape: type[S]) -> tuple[S | None, list[FieldError]]:
    """``tree`` as a ``shape``, or None with every mistake. A null in a field that must be given counts as missing."""
    try:
        return msgspec.convert(tree, shape), []
    except msgspec.ValidationError as exc:
        kind = inspect.type_info(shape)
        errors: list[FieldError] = []
        for error in _check(tree, kind, ""):
            errors.append(error)
            if len(errors) == MOST_ERRORS:
                break
        return None, errors or [FieldError("", "invalid", str(exc))]


def _check(value: object, kind: inspect.Type, pointer: str) -> Iterator[FieldError]:
    match kind:
        case inspect.Metadata():
            yield from _check(value, kind.type, pointer)
        case inspect.UnionType():
            if value is not None or not kind.includes_none:
                # A field of ours is one thing or null, never one of several.
                one = next(one for one in kind.types if not isinstance(one, inspect.NoneType))
                yield from _check(value, one, pointer)
        case inspect.StructType() if isinstance(value, dict):
            yield from _check_fields(value, kind, pointer)
        case _:
            complaint = _complaint(value, kind)
            if complaint is not None:
                yield FieldError(pointer, *complaint)


def _check_fields(value: dict[str, Any], kind: inspect.StructType, pointer: str) -> Iterator[FieldError]:
    known = {field.encode_name: field for field in kind.fields}
    for name in value.keys() - known.keys() if kind.forbid_unknown_fields else ():
        word = printable(name[:100])
        yield FieldError(child(pointer, name), "unknown_field", f"is not known{did_you_mean(word, known)}")
    for name, field in known.items():
        given = value.get(name)
        if given is None and field.required:
            yield FieldError(child(pointer, name), "missing", "is missing")
        elif name in value:
            yield from _check(given, field.type, child(pointer, name))


def _complaint(value: object, kind: inspect.Type) -> tuple[str, str] | None:
    """What is wrong with a ``value`` that is to be a ``kind``: the code and the sentence, or None."""
    match kind:
        case inspect.AnyType():
            return None
        case inspect.StrType() if isinstance(value, str):
            return _length_complaint(value, kind)
        case inspect.DateTimeType() if isinstance(value, str):
            return None if read_instant(value) is not None else ("instant", INSTANT_WANTED)
        case inspect.DictType() if isinstance(value, dict):
            return None
        case inspect.BoolType() if isinstance(value, bool):
            return None
        case inspect.IntType() if isinstance(value, int) and not isinstance(value, bool):
            return None
    return "type", f"must be {_WANTED.get(type(kind), 'something else')}, not {_describe(value)}"


INSTANT_WANTED = "must be an instant with an offset, such as 2026-12-01T14:00:00Z or 2026-12-01T15:00:00+01:00"
_WANTED: dict[type[inspect.Type], str] = {
    inspect.StrType: "a text",
    inspect.DateTimeType: "an instant in a text, such as 2026-12-01T14:00:00Z",
    inspect.DictType: "an object",
    inspect.StructType: "an object",
    inspect.BoolType: "true or false",
    inspect.IntType: "a whole number",
}


def _length_complaint(text: str, kind: inspect.StrType) -> tuple[str, str] | None:
    if kind.max_length is not None and len(text) > kind.max_length:
        return "too_long", f"has {len(text)} characters, {kind.max_length} are allowed"
    if kind.min_length is not None and len(text) < kind.min_length:
        return "too_short", f"must have at least {kind.min_length} character{'s' * (kind.min_length > 1)}"
    return None


def _describe(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | Decimal() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "an array"
        case _:
            return "an object"
