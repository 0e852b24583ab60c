"""From the body of a request to an event that can be accepted, or to everything that is wrong with it."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from services.ingest.canonical import hash_body, write_json
from services.ingest.schemas import LONGEST_KEY, EventIn
from shared.address import address_problem
from shared.errors import FieldError
from shared.ids import new_event_id
from shared.payloads import Checkers
from shared.rendering.formats import find_locale, find_zone
from shared.store.events import NewEvent
from shared.suggestion import did_you_mean
from shared.tenant import EventType, ScopedTenant
from shared.web.instant import read_instant
from shared.web.shape import read_shape

FARTHEST_AHEAD = timedelta(days=365)
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
"""A ``send_at`` of long ago is kept as this: the first instant of the calendar means minus infinity to Postgres."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """A body that cannot be accepted. ``key`` and ``body_hash`` say whether it was once, under an older file."""

    errors: list[FieldError]
    key: str | None
    body_hash: bytes


class Intake:
    """Reads posted events against the tenant's file, whose schemas it keeps compiled."""

    def __init__(self) -> None:
        self._checkers = Checkers()

    def read(self, tree: Any, header_key: str | None, tenant: ScopedTenant, request_id: str) -> NewEvent | Unfit:
        """The event in ``tree``, or every mistake in it; ``header_key`` is the header ``Idempotency-Key``."""
        posted, errors = read_shape(tree, EventIn)
        fields: dict[str, Any] = tree if isinstance(tree, dict) else {}
        key, key_errors = _choose_key(fields, header_key)
        errors += key_errors
        event_type = tenant.tenant.event_types.get(str(fields.get("event_type")))
        errors += _check_recipient(fields.get("recipient"), event_type)
        errors += _check_instants(fields, datetime.now(UTC))
        errors += self._check_payload(fields, event_type, tenant)
        body_hash = hash_body(fields)
        if posted is None or key is None or event_type is None or errors:
            return Unfit(errors, key, body_hash)
        recipient = fields["recipient"] if event_type.to is None else asdict(event_type.to)
        return NewEvent(
            event_id=new_event_id(),
            scope_id=tenant.scope_id,
            idempotency_key=key,
            body_hash=body_hash,
            event_type=posted.event_type,
            ref=posted.ref,
            recipient=write_json({name: value for name, value in recipient.items() if value is not None}),
            payload=write_json(posted.payload),
            file_version=tenant.file_version,
            send_at=_finite(read_instant(fields.get("send_at"))),
            expires_at=read_instant(fields.get("expires_at")),
            expires_after=event_type.expires_after,
            request_id=request_id,
        )

    def _check_payload(
        self, fields: dict[str, Any], event_type: EventType | None, tenant: ScopedTenant
    ) -> list[FieldError]:
        name, payload = fields.get("event_type"), fields.get("payload")
        if not isinstance(name, str):
            return []
        if event_type is None:
            hint = did_you_mean(name, tenant.tenant.event_types)
            return [FieldError("/event_type", "unknown_event_type", f"is no event type of {tenant.tenant.key}{hint}")]
        return self._checkers.of(tenant, event_type).errors(payload) if isinstance(payload, dict) else []


def _choose_key(fields: dict[str, Any], header_key: str | None) -> tuple[str | None, list[FieldError]]:
    """The idempotency key, wherever it stands, and what is wrong with it."""
    in_body = fields.get("idempotency_key")
    if in_body is not None and not isinstance(in_body, str):
        return None, []
    if header_key is None:
        if in_body is None:
            return None, [FieldError("/idempotency_key", "missing", "is missing, here or as header Idempotency-Key")]
        return (in_body if 0 < len(in_body) <= LONGEST_KEY else None), []
    if in_body is not None and in_body != header_key:
        detail = "is not the same as the header Idempotency-Key"
        return None, [FieldError("/idempotency_key", "idempotency_key_conflict", detail)]
    if not 0 < len(header_key) <= LONGEST_KEY:
        detail = f"has {len(header_key)} characters as header Idempotency-Key, 1 to {LONGEST_KEY} are allowed"
        return None, [FieldError("/idempotency_key", "too_long" if header_key else "too_short", detail)]
    return header_key, []


def _check_recipient(recipient: object, event_type: EventType | None) -> Iterator[FieldError]:
    is_fixed = event_type is not None and event_type.to is not None
    if recipient is None and not is_fixed:
        yield FieldError("/recipient", "missing", "is missing")
    elif recipient is not None and is_fixed:
        yield FieldError("/recipient", "recipient_fixed", "must be left out: the tenant's file says whom this goes to")
    if not isinstance(recipient, dict):
        return
    email, locale, zone = (recipient.get(name) for name in ("email", "locale", "timezone"))
    if isinstance(email, str) and (fault := address_problem(email)) is not None:
        yield FieldError("/recipient/email", "address", fault)
    if isinstance(locale, str) and find_locale(locale) is None:
        yield FieldError("/recipient/locale", "locale", "is no locale that is known, such as en or de-AT")
    if isinstance(zone, str) and find_zone(zone) is None:
        yield FieldError("/recipient/timezone", "timezone", "is no time zone that is known, such as Europe/Berlin")


def _finite(send_at: datetime | None) -> datetime | None:
    return None if send_at is None else max(send_at, EARLIEST)


def _check_instants(fields: dict[str, Any], now: datetime) -> Iterator[FieldError]:
    send_at, expires_at = (read_instant(fields.get(name)) for name in ("send_at", "expires_at"))
    for name, instant in (("send_at", send_at), ("expires_at", expires_at)):
        if instant is not None and instant - now > FARTHEST_AHEAD:
            yield FieldError(f"/{name}", "too_far_ahead", f"is more than {FARTHEST_AHEAD.days} days ahead")
    if expires_at is not None and send_at is not None and expires_at <= send_at:
        yield FieldError("/expires_at", "expires_too_early", "must be later than send_at")
    elif expires_at is not None and expires_at <= now:
        yield FieldError("/expires_at", "expires_too_early", "has passed")
