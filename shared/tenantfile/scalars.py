"""What a plain scalar means in YAML 1.2, core schema; nothing of YAML 1.1 is left."""

import re

from shared.tenantfile.nodes import Plain

MAX_NUMBER_CHARACTERS = 40

_WORDS: dict[str, Plain] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([Tt\s].*)?")


class AmbiguousScalar(ValueError):
    """A plain scalar that loaders read differently; the text says what to write."""


def resolve_plain(text: str) -> Plain:
    """The value of the plain scalar ``text``: null, true, a number, else the text as it stands.

    ``no`` and ``22:30`` are text, ``010`` is ten. Raises AmbiguousScalar for what looks like a date.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _DATE.fullmatch(text):
        raise AmbiguousScalar("looks like a date; put it in quotes, it is text here")
    if _NOT_FINITE.fullmatch(text):
        raise AmbiguousScalar("is not a number JSON knows; put it in quotes if it is text")
    for pattern, base in ((_INTEGER, 10), (_OCTAL, 8), (_HEXADECIMAL, 16)):
        if pattern.fullmatch(text):
            _check_length(text)
            return int(text, 10) if base == 10 else int(text[2:], base)  # noqa: PLR2004 - its meaning stands beside it
    if _FLOAT.fullmatch(text):
        _check_length(text)
        return _float(text)
    return text


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise AmbiguousScalar("is too large a number; put it in quotes if it is text")
    return value


def _check_length(text: str) -> None:
    if len(text) > MAX_NUMBER_CHARACTERS:
        raise AmbiguousScalar("is too long for a number; put it in quotes if it is text")
