"""Instants as the API takes and gives them: RFC 3339 with an offset in, UTC with Z out."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec

Instant = Annotated[datetime, msgspec.Meta(tz=True, description="RFC 3339 with an offset, e.g. 2026-12-01T14:00:00Z")]


def read_instant(value: object) -> datetime | None:
    """The instant that ``value`` writes, in UTC; None when it writes none."""
    if not isinstance(value, str):
        return None
    try:
        return msgspec.convert(value, Instant).astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        return None


def write_instant(instant: datetime) -> str:
    """``instant`` in UTC with Z; fractions of a second only where there are any."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
