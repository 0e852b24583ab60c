"""What a template can speak of, apart from the payload: the values, and the schema they are checked against."""

from collections.abc import Mapping
from typing import Any

from shared.ids import EventId, format_event_id
from shared.recipient import Recipient
from shared.tenant import Tenant

_TEXT = {"type": "string"}
_RECIPIENT_FIELDS = ("id", "name", "email", "locale")


def variables_of(
    tenant: Tenant, event_id: EventId, recipient: Recipient, locale: str, payload: Mapping[str, Any]
) -> dict[str, object]:
    """The values templates read. What the recipient has not got is not there, rather than empty."""
    known = {name: getattr(recipient, name) for name in _RECIPIENT_FIELDS} | {"locale": locale}
    return {
        "payload": payload,
        "recipient": {name: value for name, value in known.items() if value is not None},
        "tenant": {"name": tenant.name, "website": tenant.website or ""},
        "event": {"id": format_event_id(event_id)},
    }


def variables_schema(payload_schema: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Schema of ``variables_of``; ``payload_schema`` is kept as it is under ``payload``."""
    recipient = _object({name: _TEXT for name in _RECIPIENT_FIELDS}, required=["id", "locale"])
    own = {
        "recipient": recipient,
        "tenant": _object({"name": _TEXT, "website": _TEXT}, required=["name", "website"]),
        "event": _object({"id": _TEXT}, required=["id"]),
    }
    return _object({"payload": dict(payload_schema), **own}, required=["payload", *own])


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": required}
