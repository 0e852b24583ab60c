"""Dates and money in the words of a locale: the two filters of our own, and which names are known."""

import re
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_datetime
from babel.numbers import format_currency
from liquid.filter import with_context

from shared.rendering.bounds import BadValue, BoundedContext

MAX_PATTERN_CHARACTERS = 100
_CURRENCY = re.compile(r"[A-Z]{3}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_LEAP = re.compile(r"(T\d\d:\d\d):60")
_LOCALE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8}){0,3}")
_MAX_MAGNITUDE = 30


@lru_cache(maxsize=256)
def find_locale(name: str) -> Locale | None:
    """The locale called ``name`` (``de``, ``de-AT``, ``zh-Hant-TW``), or None when nobody knows it."""
    if not _LOCALE.fullmatch(name):
        return None
    try:
        return Locale.parse(name.replace("_", "-"), sep="-")
    except (UnknownLocaleError, ValueError):
        return None


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """The names of all time zones."""
    return frozenset(available_timezones())


def find_zone(name: str) -> tzinfo | None:
    """The time zone called ``name`` (``Europe/Berlin``), or None when nobody knows it."""
    # The set is asked first: ZoneInfo would take the name for a path.
    return ZoneInfo(name) if name in zone_names() else None


@with_context
def format_instant(value: object, *, context: BoundedContext, format: object = "medium") -> str:  # noqa: A002 - the keyword's name in templates
    """Filter ``datetime``: an RFC 3339 date-time in the recipient's zone, or a date as it stands.

    ``format`` is a CLDR pattern (``EEE d MMM, HH:mm``) or short, medium, long or full.
    """
    if not isinstance(format, str) or not 0 < len(format) <= MAX_PATTERN_CHARACTERS:
        raise BadValue("datetime needs a format, say 'EEE d MMM, HH:mm'")
    voice = context.voice
    moment = _moment(value)
    try:
        if isinstance(moment, datetime):
            return format_datetime(moment, format, tzinfo=voice.zone, locale=voice.locale)
        return format_date(moment, format, locale=voice.locale)
    except (KeyError, AttributeError, ValueError, OverflowError, IndexError) as exc:
        raise BadValue(f"datetime cannot use the format {format!r}: {exc}") from exc


def _moment(value: object) -> date:
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            return date.fromisoformat(value)
        # RFC 3339 knows a 60th second and small letters, Python knows neither.
        instant = datetime.fromisoformat(_LEAP.sub(r"\1:59", value.upper())) if isinstance(value, str) else None
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise BadValue("datetime needs a date-time with an offset, like 2026-12-01T14:00:00Z")
    try:
        return instant.astimezone(UTC)
    except OverflowError as exc:
        raise BadValue("datetime needs a year people write") from exc


@with_context
def format_money(value: object, currency: object, *, context: BoundedContext) -> str:
    """Filter ``money``: an amount (``"25.00"`` or a number) with the symbol of its ISO 4217 currency."""
    if not isinstance(currency, str) or not _CURRENCY.fullmatch(currency):
        raise BadValue("money needs a currency of three capitals, like EUR")
    return format_currency(_amount(value), currency, locale=context.voice.locale)


def _amount(value: object) -> Decimal:
    try:
        amount = Decimal(str(value)) if isinstance(value, str | int | float) else None
    except InvalidOperation:
        amount = None
    # A few characters like 1e999999 would be written out in full.
    if amount is None or isinstance(value, bool) or not amount.is_finite() or _is_absurd(amount):
        raise BadValue("money needs an amount like 25.00")
    return amount


def _is_absurd(amount: Decimal) -> bool:
    exponent = amount.as_tuple().exponent
    return not isinstance(exponent, int) or abs(exponent) > _MAX_MAGNITUDE or amount.adjusted() > _MAX_MAGNITUDE
