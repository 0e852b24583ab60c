"""The canonical form of a posted event: two bodies with the same hash say the same thing."""

import hashlib
from typing import Any

import msgspec

from shared.web.instant import read_instant, write_instant

NULL_IS_ABSENT = frozenset(("event_type", "recipient", "payload", "ref", "send_at", "expires_at"))
NULL_IS_ABSENT_IN_RECIPIENT = frozenset(("id", "name", "email", "locale", "timezone"))
INSTANTS = ("send_at", "expires_at")

_SORTED = msgspec.json.Encoder(order="sorted", decimal_format="number")
_AS_POSTED = msgspec.json.Encoder(decimal_format="number")


def hash_body(tree: dict[str, Any]) -> bytes:
    """The SHA-256 of a posted event without its idempotency key.

    Instants count in UTC, null counts as absent (in the payload it does not), the order of keys does not count,
    and numbers count as they were written: 1 is not 1.0. A body with mistakes has a hash too: no other than its own.
    """
    body = {key: value for key, value in tree.items() if value is not None or key not in NULL_IS_ABSENT}
    body.pop("idempotency_key", None)
    recipient = body.get("recipient")
    if isinstance(recipient, dict):
        body["recipient"] = {
            key: value
            for key, value in recipient.items()
            if value is not None or key not in NULL_IS_ABSENT_IN_RECIPIENT
        }
    for name in INSTANTS:
        instant = read_instant(body.get(name))
        if instant is not None:
            body[name] = write_instant(instant)
    return hashlib.sha256(_SORTED.encode(body)).digest()


def write_json(value: Any) -> str:
    """``value`` as JSON text, keys in the order they were posted in, numbers to the digit."""
    return _AS_POSTED.encode(value).decode()
