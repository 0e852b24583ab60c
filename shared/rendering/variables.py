"""What a template can speak of, apart from the payload: the values, and the schema they are checked against."""

from collections.abc import Mapping
from typing import Any

from shared.ids import EventId, format_event_id
from shared.recipient import Recipient
from shared.tenant import Tenant

TEXT = {"type": "string"}
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
    own = own_schemas()
    return object_schema({"payload": dict(payload_schema), **own}, required=["payload", *own])


def own_schemas() -> dict[str, Any]:
    """The JSON Schemas of all that ``variables_of`` gives beside the payload, by name."""
    recipient = object_schema(dict.fromkeys(_RECIPIENT_FIELDS, TEXT), required=["id", "locale"])
    return {
        "recipient": recipient,
        "tenant": object_schema({"name": TEXT, "website": TEXT}, required=["name", "website"]),
        "event": object_schema({"id": TEXT}, required=["id"]),
    }


def object_schema(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """The JSON Schema of an object with these ``properties`` and no others."""
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": required}
