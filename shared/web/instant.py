"""Instants as the API takes and gives them: RFC 3339 with an offset in, UTC with Z out."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec

from shared.settings import parse_duration

Instant = Annotated[datetime, msgspec.Meta(tz=True, description="RFC 3339 with an offset, e.g. 2026-12-01T14:00:00Z")]


def read_instant(value: object) -> datetime | None:
    """The instant that ``value`` writes, in UTC; None when it writes none."""
    if not isinstance(value, str):
        return None
    try:
        instant = msgspec.convert(value, Instant)
    except msgspec.ValidationError:
        return None
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        # Within a day of the calendar's end; which one matters to nobody.
        return (datetime.min if instant.year == 1 else datetime.max).replace(tzinfo=UTC)  # noqa: DTZ901 - what is compared with it has no zone yet


UNTIL_WANTED = "must be a duration such as 2h, or an instant with an offset such as 2026-12-01T14:00:00Z"


def read_until(text: str, now: datetime) -> datetime | None:
    """The instant until which ``text`` says: one it writes itself, or as far from ``now`` as the duration it writes."""
    try:
        return now + parse_duration(text)
    except ValueError:
        return read_instant(text)


def write_second(instant: datetime) -> str:
    """``instant`` in UTC with Z, to the second: for people."""
    return write_instant(instant.replace(microsecond=0))


def write_instant(instant: datetime) -> str:
    """``instant`` in UTC with Z; fractions of a second only where there are any."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
