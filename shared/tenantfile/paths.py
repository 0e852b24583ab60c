"""Paths of templates against a JSON Schema: whether the value exists, and whether it is always there."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.rendering.uses import ITEM

Schema = Mapping[str, Any]
Segment = str | int

_ALTERNATIVES = ("anyOf", "oneOf")
_BRANCHES = ("then", "else")
_LIST_WORDS = ("first", "last")


@dataclass(frozen=True, slots=True)
class Part:
    """One schema that speaks of a value; ``sure`` when it always applies, not only as an alternative."""

    schema: Schema
    sure: bool


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of a path leads to. ``always``: the value is there, and not null, in every payload."""

    parts: list[Part]
    always: bool


@dataclass(frozen=True, slots=True)
class Found:
    """A path that exists: how many steps lead to each value that may be missing, and what it ends at."""

    optional: list[int]
    parts: list[Part]

    def kind(self) -> str | None:
        """``object`` or ``array`` when the value surely is one, else None."""
        for part in self.parts:
            if part.sure and part.schema.get("type") in ("object", "array"):
                return str(part.schema["type"])
        return None

    def names(self) -> list[str]:
        """The properties of the value."""
        return names_of(self.parts)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A path that does not exist: how many steps of it do, and which names would go on from there."""

    depth: int
    known: list[str] = field(default_factory=list)


class Paths:
    """Follows paths from ``root``; references in it begin at ``document``."""

    def __init__(self, root: Schema, document: Schema) -> None:
        self._root = root
        self._document = document

    def find(self, path: tuple[Segment, ...]) -> Found | Unknown:
        """Where ``path`` leads."""
        parts = list(self._gather(self._root, sure=True))
        optional = []
        for depth, segment in enumerate(path):
            step = self._step(parts, segment)
            if step is None:
                return Unknown(depth, names_of(parts))
            parts = step.parts
            if not step.always:
                optional.append(depth + 1)
        return Found(optional, parts)

    def _step(self, parts: list[Part], segment: Segment) -> Step | None:
        if segment == ITEM:
            return Step(self._items(parts, None), always=True)
        if isinstance(segment, int):
            always = any(part.sure and part.schema.get("minItems", 0) > segment for part in parts)
            return Step(self._items(parts, segment), always) if _is_list(parts) else None
        return self._property(parts, segment) or self._measure(parts, segment)

    def _property(self, parts: list[Part], name: str) -> Step | None:
        found: list[Part] = []
        required = False
        for part in parts:
            for schema in _schemas_of(part.schema, name):
                found.extend(self._gather(schema, sure=part.sure))
            required = required or (part.sure and name in part.schema.get("required", ()))
        if not found:
            return None
        return Step(found, always=required and not _may_be_null(found))

    def _measure(self, parts: list[Part], word: str) -> Step | None:
        """``size`` of a text, list or object, ``first`` and ``last`` of a list."""
        if word == "size":
            return Step([Part({"type": "integer"}, sure=True)], always=True)
        if word in _LIST_WORDS and _is_list(parts):
            always = any(part.sure and part.schema.get("minItems", 0) > 0 for part in parts)
            return Step(self._items(parts, None), always)
        return None

    def _items(self, parts: list[Part], index: int | None) -> list[Part]:
        found: list[Part] = []
        for part in parts:
            prefix = part.schema.get("prefixItems", [])
            places = prefix if index is None else prefix[index : index + 1]
            if isinstance(items := part.schema.get("items"), Mapping):
                places = [*places, items]
            found.extend(inner for place in places for inner in self._gather(place, sure=len(places) == 1))
        return found

    def _gather(self, schema: Any, *, sure: bool, seen: set[int] | None = None) -> Iterator[Part]:
        """``schema`` and every schema beside or behind it that speaks of the same value, each once."""
        seen = set() if seen is None else seen
        if not isinstance(schema, Mapping) or id(schema) in seen:
            return
        seen.add(id(schema))
        yield Part(schema, sure)
        if isinstance(reference := schema.get("$ref"), str):
            yield from self._gather(self._resolve(reference), sure=sure, seen=seen)
        for inner in schema.get("allOf", ()):
            yield from self._gather(inner, sure=sure, seen=seen)
        for word in _ALTERNATIVES:
            for inner in schema.get(word, ()):
                yield from self._gather(inner, sure=False, seen=seen)
        for word in _BRANCHES:
            yield from self._gather(schema.get(word), sure=False, seen=seen)

    def _resolve(self, reference: str) -> Any:
        place: Any = self._document
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(place, list) and name.isdigit() and int(name) < len(place):
                place = place[int(name)]
            else:
                place = place.get(name) if isinstance(place, Mapping) else None
        return place


def names_of(parts: list[Part]) -> list[str]:
    """Every property any of ``parts`` names."""
    return list(dict.fromkeys(name for part in parts for name in part.schema.get("properties", {})))


def _schemas_of(schema: Schema, name: str) -> list[Any]:
    if name in (properties := schema.get("properties", {})):
        return [properties[name]]
    matching = [inner for pattern, inner in schema.get("patternProperties", {}).items() if _matches(pattern, name)]
    others = schema.get("additionalProperties")
    return matching or ([others] if isinstance(others, Mapping) else [])


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name[:100]) is not None
    except re.error:
        return False


def _is_list(parts: list[Part]) -> bool:
    return any("array" in _types(part.schema) or "items" in part.schema for part in parts)


def _may_be_null(parts: list[Part]) -> bool:
    return any("null" in _types(part.schema) or None in part.schema.get("enum", ()) for part in parts)


def _types(schema: Schema) -> tuple[str, ...]:
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else tuple(kind)
