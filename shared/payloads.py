"""Payloads against the JSON Schema of their event type: every mistake, with its pointer."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema_rs

from shared.errors import FieldError
from shared.suggestion import did_you_mean
from shared.tenant import EventType, ScopedTenant

MAX_ERRORS = 100
_MAX_CACHED = 2000
_CODES = {"required": "missing", "additionalProperties": "unknown_field", "unevaluatedProperties": "unknown_field"}


class SchemaError(ValueError):
    """A schema that is none; the text says what is wrong, ``path`` where."""

    def __init__(self, what: str, path: tuple[str | int, ...]) -> None:
        super().__init__(what)
        self.path = path


class Checker:
    """One compiled schema. Formats are checked, patterns run in linear time, nothing is ever fetched."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                dict(schema),
                validate_formats=True,
                ignore_unknown_formats=False,
                offline=True,
                mask="the value",
                pattern_options=jsonschema_rs.RegexOptions(),
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as exc:
            raise SchemaError(_why(exc), tuple(getattr(exc, "instance_path", ()))) from exc

    def errors(self, payload: Any) -> list[FieldError]:
        """Every mistake of ``payload``, at most a hundred; pointers begin with ``/payload``."""
        found: list[FieldError] = []
        for error in self._validator.iter_errors(payload):
            found.extend(self._explain(error))
            if len(found) >= MAX_ERRORS:
                break
        return found[:MAX_ERRORS]

    def _explain(self, error: jsonschema_rs.ValidationError) -> list[FieldError]:
        keyword = error.kind.name
        pointer = _pointer(error.instance_path)
        code = _CODES.get(keyword, "invalid")
        match error.kind:
            case jsonschema_rs.ValidationErrorKind.Required(property=name):
                return [FieldError(f"{pointer}/{_escape(str(name))}", code, "is missing")]
            case (
                jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=names)
                | jsonschema_rs.ValidationErrorKind.UnevaluatedProperties(unexpected=names)
            ):
                known = self._names_at(error.schema_path)
                return [
                    FieldError(f"{pointer}/{_escape(name)}", code, f"is not known{did_you_mean(name, known)}")
                    for name in names
                ]
            case _:
                return [FieldError(pointer, code, error.message)]

    def _names_at(self, schema_path: Sequence[str | int]) -> list[str]:
        """The properties named beside the keyword at ``schema_path``."""
        place: Any = self._schema
        for step in schema_path[:-1]:
            try:
                place = place[step]
            except (KeyError, IndexError, TypeError):
                return []
        names = place.get("properties", {}) if isinstance(place, Mapping) else {}
        return list(names)


class Checkers:
    """Compiled schemas of the tenants' present files, the least used forgotten first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str], tuple[int, EventType, Checker]] = OrderedDict()

    def of(self, tenant: ScopedTenant, event_type: EventType) -> Checker:
        """The checker of ``event_type``, compiled once per file version."""
        key = (int(tenant.tenant_id), event_type.id)
        kept = self._kept.get(key)
        if kept is None or kept[0] != tenant.file_version or kept[1] is not event_type:
            kept = (tenant.file_version, event_type, Checker(event_type.payload_schema))
            self._kept[key] = kept
            if len(self._kept) > _MAX_CACHED:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return kept[2]


def _pointer(path: Sequence[str | int]) -> str:
    return "".join(f"/{_escape(str(step))}" for step in ("payload", *path))


def _escape(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")


def _why(exc: Exception) -> str:
    message = str(getattr(exc, "message", None) or exc).splitlines()[0]
    if message.endswith('is not a "regex"'):
        return "is no pattern, or needs look-around or back-references: patterns run in linear time"
    return message
