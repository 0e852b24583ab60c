"""What applying a file would change, in lines for people."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields, is_dataclass
from datetime import timedelta
from enum import IntEnum
from typing import Any

from shared.tenant import Tenant

MAX_SHOWN = 60

_LISTED = re.compile(r"(event_types|categories)\.[^.]+")
_FILE_WORDS = (
    (re.compile(r"^(event_types\.[^.]+\.)payload_schema"), r"\1payload"),
    (re.compile(r"^(event_types\.[^.]+\.)(inapp|email|push)\b"), r"\1channels.\2"),
    (re.compile(r"\.how(\.terms)?\."), "."),
)

Leaves = dict[str, str]


def diff(old: Tenant | None, new: Tenant) -> list[str]:
    """One line per change from ``old`` to ``new``: ``+`` added, ``-`` removed, ``~`` changed; empty when alike."""
    if old is None:
        types = ", ".join(new.event_types) or "none"
        return [f"+ tenant {new.key} ({new.name}), event types: {types}"]
    before, after = dict(_leaves(old, "")), dict(_leaves(new, ""))
    lines: dict[str, None] = {}
    for path in [*before, *(path for path in after if path not in before)]:
        if before.get(path) != after.get(path):
            lines[_line(path, before, after)] = None
    return list(lines)


def credential_lines(changed: Collection[str], lines: Sequence[str]) -> list[str]:
    """What is said of the credentials at the paths ``changed``, unless ``lines`` say already that they are new."""
    return [f"~ {path}: changed" for path in changed if not any(line.startswith(f"+ {path}.") for line in lines)]


def _line(path: str, before: Leaves, after: Leaves) -> str:
    whole = _LISTED.match(path)
    if whole and not _has(whole[0], before):
        return f"+ {whole[0]}"
    if whole and not _has(whole[0], after):
        return f"- {whole[0]}"
    name = path
    for pattern, word in _FILE_WORDS:
        name = pattern.sub(word, name)
    if path not in before:
        return f"+ {name}: {_show(after[path])}"
    if path not in after:
        return f"- {name}: {_show(before[path])}"
    return f"~ {name}: {_show(before[path])} → {_show(after[path])}"


def _has(prefix: str, leaves: Leaves) -> bool:
    return any(path.startswith(f"{prefix}.") for path in leaves)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    dot = f"{path}." if path else ""
    match value:
        case None:
            return
        case _ if is_dataclass(value):
            for each in fields(value):
                yield from _leaves(getattr(value, each.name), f"{dot}{each.name}")
        case dict():
            for key, inner in value.items():
                yield from _leaves(inner, f"{dot}{key}")
        case list() | tuple() if any(isinstance(item, dict | list) for item in value):
            for index, item in enumerate(value):
                yield from _leaves(item, f"{path}[{index}]")
        case list() | tuple():
            yield path, f"[{', '.join(_word(item) for item in value)}]"
        case _:
            yield path, _word(value)


def _word(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case timedelta():
            return _duration(value)
        case IntEnum():
            return value.name.lower()
        case _:
            return str(value)


def _duration(value: timedelta) -> str:
    seconds = round(value.total_seconds())
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        # 24h is written so in the file, and nobody thinks of it as one day.
        if seconds % length == 0 and seconds >= (2 * length if unit == "d" else length):
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _show(text: str) -> str:
    first, *rest = text.splitlines() or [""]
    short = first if len(first) <= MAX_SHOWN else first[: MAX_SHOWN - 1] + "…"
    return f"“{short}” and {len(rest)} more lines" if rest else f"“{short}”" if " " in short else short
