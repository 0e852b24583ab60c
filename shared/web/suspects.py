"""The slow second reading of a JSON body: where exactly the duplicates, NULs, surrogates and absurd numbers are."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from shared.errors import FieldError
from shared.web.pointer import child, printable
from shared.web.problems import MOST_ERRORS

_SURROGATE = re.compile("[\ud800-\udfff]")


class _Pairs(list[tuple[str, Any]]):
    """One object as it was written: a duplicate key is still there twice."""


class _Wrong:
    """A number or word that stands for no value."""

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        self.detail = detail


_TOO_LARGE = _Wrong("number_out_of_range", "The number is larger than any program could read; send it as a text.")


def find_suspects(
    text: str, read_integer: Callable[[str], object], read_decimal: Callable[[str], object]
) -> list[FieldError]:
    """Everything in ``text`` that JSON's grammar allows and we do not, in the order of the text.

    The readers give None for a number that is too large. Raises json.JSONDecodeError.
    """
    decoder = json.JSONDecoder(
        object_pairs_hook=_Pairs,
        parse_int=lambda digits: _TOO_LARGE if read_integer(digits) is None else None,
        parse_float=lambda digits: _TOO_LARGE if read_decimal(digits) is None else None,
        parse_constant=lambda word: _Wrong("not_a_number", f"{word} is no JSON."),
    )
    errors: list[FieldError] = []
    for error in _walk(decoder.decode(text), ""):
        errors.append(error)
        if len(errors) == MOST_ERRORS:
            break
    return errors


def _walk(value: object, pointer: str) -> Iterator[FieldError]:
    match value:
        case _Wrong():
            yield FieldError(pointer, value.code, value.detail)
        case str():
            yield from _check_text(value, pointer, "text")
        case _Pairs():
            seen: set[str] = set()
            for key, inner in value:
                here = child(pointer, key)
                yield from _check_text(key, here, "key")
                if key in seen:
                    yield FieldError(here, "duplicate_key", f"The key {_quote(key)} is there more than once.")
                seen.add(key)
                yield from _walk(inner, here)
        case list():
            for index, inner in enumerate(value):
                yield from _walk(inner, child(pointer, index))


def _check_text(text: str, pointer: str, what: str) -> Iterator[FieldError]:
    if "\0" in text:
        yield FieldError(pointer, "nul_character", f"The {what} has the character U+0000 in it.")
    if _SURROGATE.search(text):
        yield FieldError(pointer, "lone_surrogate", f"The {what} has half of a surrogate pair in it.")


def _quote(key: str) -> str:
    return f'"{printable(key[:100])}"'
