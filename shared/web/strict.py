"""The strict pre-read: what every JSON body must be before anybody looks at its fields.

JSON readers let pass what breaks things later: duplicate keys (which one counts?), NUL (Postgres refuses it),
half surrogate pairs (no UTF-8 can be made of them), nesting until the stack ends. Here each is a 400 that says
where. Numbers keep their digits: whole ones are ``int``, others ``Decimal``, so that 1 and 1.0 stay apart.
"""

import json
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from shared.errors import FieldError
from shared.web.pointer import printable
from shared.web.problems import malformed_json
from shared.web.suspects import find_suspects

DEEPEST = 100
LONGEST_NUMBER = 308
"""Digits of a number. A double ends at 1.8e308, so this refuses nothing that another program could have read."""

_DEPTH_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
_SUSPECT_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_BOM = b"\xef\xbb\xbf"


class _Suspicious(Exception):
    """Something that the fast reading refuses and the slow one finds the place of."""


def parse_json(raw: bytes) -> Any:
    """The value written in ``raw``; Problem 400 ``malformed_json`` with the place of everything that is wrong."""
    text = _decode(raw)
    _check_depth(raw)
    try:
        value = _DECODER.decode(text)
        if _SUSPECT_ESCAPE.search(text) is not None:
            _refuse_suspects(text)
    except json.JSONDecodeError as exc:
        _refuse_syntax(exc)
    except _Suspicious:
        _refuse_suspects(text)
    return value


def _decode(raw: bytes) -> str:
    if raw.startswith(_BOM):
        _refuse("byte_order_mark", "The body begins with a byte order mark; JSON has none.")
    if (at := raw.find(b"\0")) >= 0:
        _refuse("nul_character", f"There is a NUL at byte {at}.")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as exc:
        _refuse("not_utf8", f"The body is not UTF-8: byte {exc.start} cannot stand there.")


def _check_depth(raw: bytes) -> None:
    # By scanning, before anything recursive sees it. Most bodies have not even that many brackets.
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return
    depth = 0
    for token in _DEPTH_TOKENS.finditer(raw):
        match token[0]:
            case b"[" | b"{":
                depth += 1
            case b"]" | b"}":
                depth -= 1
        if depth > DEEPEST:
            _refuse("too_deep", f"Arrays and objects may be nested {DEEPEST} deep; byte {token.start()} goes deeper.")


def read_integer(digits: str) -> int | None:
    """The whole number written as ``digits``; None when no other program could read it."""
    return int(digits) if len(digits) <= LONGEST_NUMBER else None


def read_decimal(digits: str) -> Decimal | None:
    """The number written as ``digits``, to the digit; None when no other program could read it."""
    if len(digits) > LONGEST_NUMBER or math.isinf(float(digits)):
        return None
    try:
        return Decimal(digits)
    except InvalidOperation:
        return None


def _known(number: int | Decimal | None) -> int | Decimal:
    if number is None:
        raise _Suspicious
    return number


def _refuse_constant(_word: str) -> NoReturn:
    raise _Suspicious


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Suspicious
    return made


_DECODER = json.JSONDecoder(
    object_pairs_hook=_make_object,
    parse_int=lambda digits: _known(read_integer(digits)),
    parse_float=lambda digits: _known(read_decimal(digits)),
    parse_constant=_refuse_constant,
)


def _refuse_suspects(text: str) -> None:
    try:
        errors = find_suspects(text, read_integer, read_decimal)
    except json.JSONDecodeError as exc:
        _refuse_syntax(exc)
    if errors:
        raise malformed_json(errors)


def _refuse_syntax(exc: json.JSONDecodeError) -> NoReturn:
    what = "it is empty" if not exc.doc.strip() else exc.msg[:1].lower() + exc.msg[1:].removesuffix(" starting at")
    detail = f"The body is not JSON: {printable(what)}, line {exc.lineno}, column {exc.colno}."
    raise malformed_json([FieldError("", "syntax", detail)]) from exc


def _refuse(code: str, detail: str) -> NoReturn:
    raise malformed_json([FieldError("", code, detail)])
