"""How a setting is written: one parser per type of the table.

A parser returns the value or raises ValueError with the rest of the sentence "WAYBILL_X must be …".
It never repeats what was written: it may be a secret.
"""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shared.endpoint import parse_hosts, parse_pairs
from shared.sealing import parse_master_keys

Parser = Callable[[str], object]

UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
LONGEST_DURATION = timedelta(days=3650)
SWITCH_WORDS = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?(ms|s|m|h|d)?", re.ASCII)
_DIGITS = re.compile(r"\d{1,9}", re.ASCII)


def parse_duration(text: str) -> timedelta:
    """The duration written as ``90s``, ``500ms``, ``5m``, ``2h``, ``1d`` or plain seconds; longer than nothing."""
    found = _DURATION.fullmatch(text)
    if found is not None:
        number, unit = float(found[1]), UNITS[found[2] or "s"]
        # Compared as numbers: the product may be more than a timedelta holds.
        if number <= LONGEST_DURATION / unit and number * unit > timedelta():
            return number * unit
    raise ValueError("a duration such as 90s, 500ms or 5m")


def format_duration(duration: timedelta) -> str:
    """``duration`` as it is written in a setting, in the largest unit that leaves no fraction."""
    milliseconds = round(duration / UNITS["ms"])
    for unit, length in reversed(UNITS.items()):
        of_unit = round(length / UNITS["ms"])
        if milliseconds % of_unit == 0 and milliseconds >= of_unit:
            return f"{milliseconds // of_unit}{unit}"
    return "0s"


def parse_port(text: str) -> int:
    """A TCP port; 0 stands for any free one."""
    if _DIGITS.fullmatch(text) is None or int(text) > 65535:  # noqa: PLR2004 - its meaning stands beside it
        raise ValueError("a port between 0 and 65535")
    return int(text)


def parse_count(text: str) -> int:
    """A whole number of at least 1."""
    if _DIGITS.fullmatch(text) is None or int(text) < 1:
        raise ValueError("a whole number of at least 1")
    return int(text)


def parse_switch(text: str) -> bool:
    """On or off."""
    try:
        return SWITCH_WORDS[text.lower()]
    except KeyError as exc:
        raise ValueError("on or off") from exc


def parse_keys(text: str) -> tuple[bytes, ...]:
    """Master keys, newest first."""
    try:
        return parse_master_keys(text)
    except ValueError as exc:
        raise ValueError(f"base64 of 32 bytes, or several, comma-separated ({exc})") from exc


def url_parser(schemes: tuple[str, ...]) -> Callable[[str], str]:
    """A parser of URLs with one of ``schemes`` and a host; the text is left as it is."""
    expected = " or ".join(f"{scheme}://" for scheme in schemes)

    def parse_url(text: str) -> str:
        try:
            parts = urlsplit(text)
            good = parts.scheme in schemes and bool(parts.netloc) and (parts.port is None or parts.port >= 0)
        except ValueError:
            good = False
        if not good:
            raise ValueError(f"a URL that begins with {expected}")
        return text

    return parse_url


def choice_parser(choices: tuple[str, ...]) -> Callable[[str], str]:
    """A parser of one of the words ``choices``."""

    def parse_choice(text: str) -> str:
        if text not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return text

    return parse_choice


def utf8(parse: Parser) -> Parser:
    """``parse`` for texts that came from UTF-8: whatever else is written sooner or later meets a socket or a log."""

    def parse_utf8(text: str) -> object:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("text in UTF-8") from None
        return parse(text)

    return parse_utf8


def bounded(parse: Parser, least: str, most: str) -> Parser:
    """``parse`` for values from ``least`` to ``most``, both written as they are in a setting."""
    # One type on both sides, and always one that has an order: a count or a duration.
    lowest: Any = parse(least)
    highest: Any = parse(most)

    def parse_bounded(text: str) -> object:
        value: Any = parse(text)
        if not lowest <= value <= highest:
            raise ValueError(f"from {least} to {most}")
        return value

    return parse_bounded


PARSERS: dict[str, Parser] = {
    "duration": parse_duration,
    "port": parse_port,
    "count": parse_count,
    "switch": parse_switch,
    "text": str,
    "secret": str,
    "folder": Path,
    "master keys": parse_keys,
    "hosts": parse_hosts,
    "pairs": parse_pairs,
}
"""The types that need no more than their word; ``url`` and ``choice`` come with their schemes and words."""
