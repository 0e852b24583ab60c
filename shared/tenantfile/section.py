"""Reading a mapping of the file key by key: what is missing, of the wrong kind, misspelt or not built yet."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TypeVar

from shared.suggestion import did_you_mean
from shared.tenantfile.later import LATER_EVERYWHERE
from shared.tenantfile.nodes import Block, Listing, Node, Plain, Report, Scalar

T = TypeVar("T")

_DURATION = re.compile(r"(\d{1,9})(s|m|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Section:
    """One mapping under reading. ``close`` complains about every key nobody asked for; ``asked`` are those known."""

    def __init__(self, node: Block, report: Report, later: Mapping[str, str] | None = None) -> None:
        self.node = node
        self.report = report
        self._later = {**LATER_EVERYWHERE, **(later or {})}
        self.asked: list[str] = []

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return key in self.node.entries

    def get(self, key: str) -> Node | None:
        """The node under ``key``, which is known from now on."""
        self.asked.append(key)
        return self.node.entries.get(key)

    def required(self, key: str) -> Node | None:
        """Like ``get``, but None is a mistake."""
        node = self.get(key)
        if node is None:
            self.report.add(self.node.place, f"{key} is missing")
        return node

    def section(self, key: str, later: Mapping[str, str] | None = None) -> "Section | None":
        """The mapping under ``key``."""
        node = self.get(key)
        block = None if node is None else as_block(node, self.report)
        return None if block is None else Section(block, self.report, later)

    def text(self, key: str, *, required: bool = False) -> str | None:
        """The text under ``key``."""
        return self._read(key, as_text, required=required)

    def boolean(self, key: str) -> bool | None:
        """True or false under ``key``."""
        return self._read(key, as_boolean)

    def duration(self, key: str) -> timedelta | None:
        """The duration under ``key``, like ``24h``; never zero."""
        return self._read(key, as_duration)

    def choice(self, key: str, words: Iterable[str]) -> str | None:
        """One of ``words`` under ``key``."""
        known = list(words)
        return self._read(key, lambda node, report: as_choice(node, report, known))

    def number(self, key: str, lowest: float, highest: float, *, whole: bool) -> float | None:
        """A number between ``lowest`` and ``highest`` under ``key``."""
        return self._read(key, lambda node, report: as_number(node, report, lowest, highest, whole=whole))

    def texts(self, key: str) -> list[Scalar] | None:
        """The list of texts under ``key``, each with its place."""
        node = self.get(key)
        if node is None:
            return None
        if not isinstance(node, Listing):
            self.report.add(node.place, f"must be a list{_but_is(node)}")
            return None
        return [item for item in node.items if as_text(item, self.report) is not None and isinstance(item, Scalar)]

    def close(self) -> None:
        """Complain about the keys nobody asked for."""
        for key, node in self.node.entries.items():
            if key in self.asked:
                continue
            if key in self._later:
                self.report.add(node.place, f"not yet: {self._later[key]}")
            else:
                self.report.add(node.place, f"unknown key {key}{did_you_mean(key, self.asked)}")

    def _read(self, key: str, read: Callable[[Node, Report], T | None], *, required: bool = False) -> T | None:
        node = self.required(key) if required else self.get(key)
        return None if node is None else read(node, self.report)


def as_block(node: Node, report: Report) -> Block | None:
    """The node as a mapping, or None and a mistake."""
    if isinstance(node, Block):
        return node
    report.add(node.place, f"must be a mapping{_but_is(node)}")
    return None


def as_text(node: Node, report: Report) -> str | None:
    """The node as text that is not empty, or None and a mistake."""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        if node.value.strip():
            return node.value
        report.add(node.place, "is empty")
        return None
    hint = "; put it in quotes" if isinstance(node, Scalar) and node.value is not None else ""
    report.add(node.place, f"must be text{_but_is(node)}{hint}")
    return None


def as_boolean(node: Node, report: Report) -> bool | None:
    """The node as true or false, or None and a mistake."""
    if isinstance(node, Scalar) and isinstance(node.value, bool):
        return node.value
    report.add(node.place, f"must be true or false{_but_is(node)}")
    return None


def as_choice(node: Node, report: Report, known: list[str]) -> str | None:
    """The node as one of the ``known`` words, or None and a mistake."""
    if isinstance(node, Scalar) and isinstance(node.value, str) and node.value in known:
        return node.value
    word = node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
    words = f"must be one of {', '.join(known)}" if known else "names something this file does not have"
    report.add(node.place, f"{words}{did_you_mean(word, known)}")
    return None


def as_duration(node: Node, report: Report) -> timedelta | None:
    """The node as a duration with its unit, or None and a mistake."""
    text = node.value if isinstance(node, Scalar) else None
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        bare = isinstance(text, int | float) and not isinstance(text, bool)
        hint = f", {text} of what?" if bare else ""
        report.add(node.place, f"must be a duration with its unit, like 60s, 30m, 24h or 90d{hint}")
        return None
    try:
        length = timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        length = timedelta.max
    if not timedelta() < length <= timedelta(days=3660):
        report.add(node.place, "must be longer than nothing and at most ten years")
        return None
    return length


def as_number(node: Node, report: Report, lowest: float, highest: float, *, whole: bool) -> float | None:
    """The node as a number within bounds, or None and a mistake."""
    value: Plain = node.value if isinstance(node, Scalar) else None
    kinds: tuple[type, ...] = (int,) if whole else (int, float)
    if isinstance(value, kinds) and not isinstance(value, bool | str) and value is not None:  # noqa: SIM102 - two questions, asked in their order
        if lowest <= value <= highest:
            return value
    kind = "a whole number" if whole else "a number"
    report.add(node.place, f"must be {kind} from {lowest:g} to {highest:g}")
    return None


def _but_is(node: Node) -> str:
    match node:
        case Block():
            return ", not a mapping"
        case Listing():
            return ", not a list"
        case Scalar(value=None):
            return ", not empty"
        case Scalar(value=bool() as value):
            return f", not {str(value).lower()}"
        case Scalar(value=str()):
            return ", not text"
        case Scalar(value=value):
            return f", not the number {value}"
