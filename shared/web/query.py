"""What a list is asked for: which entries, how many, from where on; every mistake in it told at once."""

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from itertools import islice
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import parse_qsl

import msgspec

from shared.errors import FieldError
from shared.suggestion import closest, did_you_mean
from shared.web.instant import read_instant
from shared.web.problems import MOST_ERRORS, validation_failed
from shared.web.shape import INSTANT_WANTED

P = TypeVar("P", bound=msgspec.Struct)
Bigint = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A number in a position, so that no cursor asks the database for one it does not have."""

DEFAULT_LIMIT = 50
LARGEST_LIMIT = 200
LONGEST_TEXT = 255
LONGEST_CURSOR = 400
_LIMIT = re.compile(r"[0-9]{1,9}", re.ASCII)
_PLACE = re.compile(r"[0-9]{1,18}", re.ASCII)
_TAG_BYTES = 8


@dataclass(frozen=True, slots=True)
class Filter:
    """A parameter that narrows a list. ``read`` gives its value, or None; ``wanted`` says to a text what it must be."""

    name: str
    description: str
    read: Callable[[str], Any]
    wanted: Callable[[str], str]
    words: tuple[str, ...] = ()
    is_instant: bool = False


def text_filter(name: str, description: str) -> Filter:
    """A filter that takes any text that could have been stored."""

    def read(text: str) -> str | None:
        return text if 0 < len(text) <= LONGEST_TEXT and "\0" not in text else None

    return Filter(name, description, read, lambda _: f"must have 1 to {LONGEST_TEXT} characters and no NUL")


def word_filter(name: str, description: str, words: Iterable[StrEnum]) -> Filter:
    """A filter that takes one of ``words``, but for an empty one."""
    known = {word.value: word for word in words if word}

    def wanted(text: str) -> str:
        cased = text.upper() if next(iter(known)).isupper() else text.lower()
        return f"must be one of {', '.join(known)}{did_you_mean(cased, known)}"

    return Filter(name, description, known.get, wanted, tuple(known))


def instant_filter(name: str, description: str) -> Filter:
    """A filter that takes an instant with an offset."""
    wanted = f"{INSTANT_WANTED} (a + is written %2B in an address)"
    return Filter(name, description, read_instant, lambda _: wanted, is_instant=True)


def day_filter(name: str, description: str) -> Filter:
    """A filter that takes a day, such as 2026-12-01."""

    def read(text: str) -> date | None:
        try:
            return date.fromisoformat(text) if len(text) == len("2026-12-01") else None
        except ValueError:
            return None

    return Filter(name, description, read, lambda _: "must be a day, such as 2026-12-01")


class _Cursor(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    position: msgspec.Raw
    tag: str


@dataclass(frozen=True, slots=True)
class ListQuery(Generic[P]):
    """A page: at most ``limit`` entries that pass ``filters``, the first after ``after`` (None: from the newest on)."""

    limit: int
    after: P | None
    filters: Mapping[str, Any] = field(default_factory=dict)
    _tag: str = ""

    def write_cursor(self, position: P) -> str:
        """What the next page is asked for with, when this one ended at ``position``."""
        packed = msgspec.json.encode(_Cursor(1, msgspec.Raw(msgspec.json.encode(position)), self._tag))
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def read_query(query_string: bytes, belongs_to: str, position: type[P], filters: Sequence[Filter] = ()) -> ListQuery[P]:
    """The page that ``query_string`` asks for; Problem 422 with every mistake in it.

    ``belongs_to`` names the list and whose it is: the cursor of another one, or of other filters, is refused.
    """
    texts, errors = _read_texts(query_string, [*(one.name for one in filters), "limit", "cursor"])
    values = _read_filters(filters, texts, errors)
    limit = _read_limit(texts.get("limit"), errors)
    tag = _tag_of(belongs_to, {name: texts[name] for name in values})
    after = _read_cursor(texts.get("cursor"), tag, position, errors)
    if errors:
        raise validation_failed(errors)
    return ListQuery(limit, after, values, tag)


def read_parameters(query_string: bytes, filters: Sequence[Filter]) -> Mapping[str, Any]:
    """The values of those of ``filters`` that ``query_string`` has; Problem 422 with every mistake in it."""
    texts, errors = _read_texts(query_string, [one.name for one in filters])
    values = _read_filters(filters, texts, errors)
    if errors:
        raise validation_failed(errors)
    return values


@dataclass(frozen=True, slots=True)
class Place:
    """A page of a feed: at most ``limit`` entries behind the number ``after`` (None: from the oldest on)."""

    limit: int
    after: int | None


def read_place(query_string: bytes) -> Place:
    """The page of a feed that ``query_string`` asks for; Problem 422 with every mistake in it."""
    texts, errors = _read_texts(query_string, ["after", "limit"])
    limit, after = _read_limit(texts.get("limit"), errors), texts.get("after")
    if after is not None and _PLACE.fullmatch(after) is None:
        errors.append(FieldError("/after", "invalid", "must be the seq of a change, a whole number, or 0"))
    if errors:
        raise validation_failed(errors)
    return Place(limit, None if after is None else int(after))


def _read_texts(query_string: bytes, names: Sequence[str]) -> tuple[dict[str, str], list[FieldError]]:
    given = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True)
    # No more than an answer tells: each looks for the name that was meant, which takes its time.
    unknown = islice((name for name, _ in given if name not in names), MOST_ERRORS)
    errors = [_unknown(name, names) for name in unknown]
    told = [name for name, _ in given]
    errors += [FieldError(f"/{n}", "invalid", "is given more than once") for n in names if told.count(n) > 1]
    return dict(given), errors


def _read_filters(filters: Sequence[Filter], texts: Mapping[str, str], errors: list[FieldError]) -> dict[str, Any]:
    values = {one.name: one.read(texts[one.name]) for one in filters if one.name in texts}
    errors += [
        FieldError(f"/{one.name}", "invalid", one.wanted(texts[one.name]))
        for one in filters
        if one.name in values and values[one.name] is None
    ]
    return values


def _read_limit(text: str | None, errors: list[FieldError]) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if _LIMIT.fullmatch(text) is None or not 1 <= int(text) <= LARGEST_LIMIT:
        errors.append(FieldError("/limit", "invalid", f"must be a whole number from 1 to {LARGEST_LIMIT}"))
        return DEFAULT_LIMIT
    return int(text)


def _read_cursor(text: str | None, tag: str, position: type[P], errors: list[FieldError]) -> P | None:
    if text is None:
        return None
    try:
        if len(text) > LONGEST_CURSOR:
            raise ValueError("too long")
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        cursor = msgspec.json.decode(packed, type=_Cursor)
        after = msgspec.json.decode(cursor.position, type=position)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        errors.append(FieldError("/cursor", "invalid", "must be a next_cursor of this list, as it was given"))
        return None
    if cursor.version != 1 or cursor.tag != tag:
        errors.append(FieldError("/cursor", "invalid", "belongs to another list, or to other filters"))
        return None
    return after


def _tag_of(belongs_to: str, texts: Mapping[str, str]) -> str:
    named = msgspec.json.encode([belongs_to, sorted(texts.items())])
    return hashlib.sha256(named).digest()[:_TAG_BYTES].hex()


def _unknown(name: str, known: Sequence[str]) -> FieldError:
    near = closest(name, known)
    hint = f": did you mean {near}?" if near else f": there is {', '.join(known)}"
    return FieldError(f"/{name[:50]}", "unknown_field", f"is no parameter here{hint}")
