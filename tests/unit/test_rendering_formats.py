"""Dates, money, locales and zones in templates."""

from zoneinfo import ZoneInfo

import pytest
from babel import Locale

from shared.errors import RenderError
from shared.rendering.bounds import Budget, Voice
from shared.rendering.formats import find_locale, find_zone
from shared.rendering.kinds import Kind
from shared.rendering.liquid import render
from shared.rendering.locales import choose_locale


def write(source: str, x: object, locale: str = "en", zone: str = "Europe/Berlin") -> str:
    voice = Voice(Locale.parse(locale, sep="-"), ZoneInfo(zone))
    return render(source, Kind.TEXT, "body", {"payload": {"x": x}}, voice, Budget())


@pytest.mark.parametrize(
    ("value", "pattern", "locale", "zone", "expected"),
    [
        ("2026-12-01T14:00:00Z", "EEE d MMM, HH:mm", "en", "Europe/Berlin", "Tue 1 Dec, 15:00"),
        ("2026-12-01T14:00:00Z", "EEE d. MMM, HH:mm", "de", "Europe/Berlin", "Di. 1. Dez., 15:00"),
        ("2026-07-01T14:00:00Z", "HH:mm", "de", "Europe/Berlin", "16:00"),
        ("2026-12-01T14:00:00+05:30", "HH:mm", "en", "UTC", "08:30"),
        ("2026-12-01T14:00:00Z", "yyyy-MM-dd HH:mm", "en", "Pacific/Auckland", "2026-12-02 03:00"),
        ("2026-12-01T14:00:00Z", "HH:mm zzzz", "de", "Europe/Berlin", "15:00 Mitteleuropäische Normalzeit"),
        ("2026-12-01t14:00:00.1234567z", "HH:mm", "en", "UTC", "14:00"),
        ("2016-12-31T23:59:60Z", "HH:mm:ss", "en", "UTC", "23:59:59"),
        ("2026-12-01", "EEEE d MMMM", "en", "Pacific/Auckland", "Tuesday 1 December"),
    ],
)
def test_datetime_speaks_the_locale_in_the_zone(
    value: str, pattern: str, locale: str, zone: str, expected: str
) -> None:
    assert write(f"{{{{ payload.x | datetime: format: '{pattern}' }}}}", value, locale, zone) == expected


@pytest.mark.parametrize("value", ["2026-12-01T14:00:00", "tomorrow", "", 1764597600, True, None, ["x"], "2026-13-01"])
def test_datetime_refuses_what_is_no_instant(value: object) -> None:
    with pytest.raises(RenderError, match="needs a date-time with an offset"):
        write("{{ payload.x | datetime: format: 'HH:mm' }}", value)


@pytest.mark.parametrize("pattern", ["QQQQQQQQQ", "", "y" * 200])
def test_datetime_refuses_a_broken_format(pattern: str) -> None:
    with pytest.raises(RenderError, match="format"):
        write(f"{{{{ payload.x | datetime: format: '{pattern}' }}}}", "2026-12-01T14:00:00Z")


@pytest.mark.parametrize(
    ("amount", "currency", "locale", "expected"),
    [
        ("25.00", "EUR", "en", "€25.00"),
        ("25.00", "EUR", "de", "25,00\xa0€"),
        ("1234567.5", "USD", "de", "1.234.567,50\xa0$"),
        (1000, "JPY", "en", "¥1,000"),
        (0.1, "EUR", "en", "€0.10"),
        ("-3", "GBP", "en", "-£3.00"),
    ],
)
def test_money_speaks_the_locale(amount: object, currency: str, locale: str, expected: str) -> None:
    assert write(f"{{{{ payload.x | money: '{currency}' }}}}", amount, locale) == expected


@pytest.mark.parametrize("amount", ["", "free", "NaN", "Infinity", "1e999999", True, None, ["1"]])
def test_money_refuses_what_is_no_amount(amount: object) -> None:
    with pytest.raises(RenderError, match="needs an amount"):
        write("{{ payload.x | money: 'EUR' }}", amount)


@pytest.mark.parametrize("currency", ["€", "eur", "EURO", ""])
def test_money_refuses_what_is_no_currency(currency: str) -> None:
    with pytest.raises(RenderError, match="needs a currency"):
        write(f"{{{{ payload.x | money: '{currency}' }}}}", "1")


@pytest.mark.parametrize("name", ["en", "de-AT", "de_AT", "pt-BR", "zh-Hant-TW", "nb"])
def test_known_locales_are_found(name: str) -> None:
    assert find_locale(name) is not None


@pytest.mark.parametrize("name", ["", "xx", "english", "de-XX-YY-ZZ", "../en", "en\n", "e", "de-"])
def test_unknown_locales_are_not_found(name: str) -> None:
    assert find_locale(name) is None


@pytest.mark.parametrize("name", ["", "Europe/Berln", "../../etc/passwd", "/etc/localtime", "europe/berlin", "CET\0"])
def test_unknown_zones_are_not_found(name: str) -> None:
    assert find_zone(name) is None
    assert find_zone("Europe/Berlin") is not None


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [("de", "de"), ("de-AT", "de"), ("DE_at", "de"), ("en-GB", "en-GB"), ("en-US", "en"), ("fr", "en"), (None, "en")],
)
def test_a_recipient_gets_the_nearest_locale(wanted: str | None, chosen: str) -> None:
    assert choose_locale(wanted, ["en", "de", "en-GB"]) == chosen
