"""What a list is asked for: how many, and from where on."""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

import msgspec

from shared.errors import FieldError
from shared.suggestion import closest
from shared.web.problems import validation_failed

DEFAULT_LIMIT = 50
LARGEST_LIMIT = 200
LONGEST_CURSOR = 200
_PARAMETERS = ("limit", "cursor")
_LIMIT = re.compile(r"[0-9]{1,9}", re.ASCII)
_TAG_BYTES = 8


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A page: at most ``limit`` entries, older than number ``before`` (None: from the newest on)."""

    limit: int = DEFAULT_LIMIT
    before: int | None = None


class _Cursor(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    version: int
    before: int
    tag: str


def read_query(query_string: bytes, belongs_to: str) -> ListQuery:
    """The page that ``query_string`` asks for; Problem 422 with every mistake in it.

    ``belongs_to`` names the list with its filters: a cursor of another one is refused.
    """
    given = parse_qsl(query_string.decode("latin-1"), keep_blank_values=True)
    errors = [_unknown(name) for name, _ in given if name not in _PARAMETERS]
    names = [name for name, _ in given]
    errors += [FieldError(f"/{n}", "invalid", "is given more than once") for n in _PARAMETERS if names.count(n) > 1]
    values: Mapping[str, str] = dict(given)
    limit = _read_limit(values.get("limit"), errors)
    before = _read_cursor(values.get("cursor"), belongs_to, errors)
    if errors:
        raise validation_failed(errors)
    return ListQuery(limit, before)


def write_cursor(before: int, belongs_to: str) -> str:
    """The cursor of the page after entry number ``before`` of the list ``belongs_to``."""
    packed = msgspec.json.encode(_Cursor(1, before, _tag(belongs_to)))
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _read_limit(text: str | None, errors: list[FieldError]) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if _LIMIT.fullmatch(text) is None or not 1 <= int(text) <= LARGEST_LIMIT:
        errors.append(FieldError("/limit", "invalid", f"must be a whole number from 1 to {LARGEST_LIMIT}"))
        return DEFAULT_LIMIT
    return int(text)


def _read_cursor(text: str | None, belongs_to: str, errors: list[FieldError]) -> int | None:
    if text is None:
        return None
    try:
        if len(text) > LONGEST_CURSOR:
            raise ValueError("too long")
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        cursor = msgspec.json.decode(packed, type=_Cursor)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        errors.append(FieldError("/cursor", "invalid", "must be a next_cursor of this list, as it was given"))
        return None
    if cursor.version != 1 or cursor.tag != _tag(belongs_to) or not 0 < cursor.before < 2**63:
        errors.append(FieldError("/cursor", "invalid", "belongs to another list"))
        return None
    return cursor.before


def _tag(belongs_to: str) -> str:
    return hashlib.sha256(belongs_to.encode()).digest()[:_TAG_BYTES].hex()


def _unknown(name: str) -> FieldError:
    near = closest(name, _PARAMETERS)
    hint = f": did you mean {near}?" if near else f": there are {' and '.join(_PARAMETERS)}"
    return FieldError(f"/{name[:50]}", "unknown_field", f"is no parameter of this list{hint}")
