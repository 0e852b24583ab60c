"""A tenant file as it was written: values with their place, and the mistakes found in it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from shared.errors import TenantFileError

Plain = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: line and column of its key (or list item), both from 1, and its path."""

    line: int
    column: int
    path: str = ""

    def child(self, line: int, column: int, step: str | int) -> "Place":
        """The place of what stands under this one."""
        written = f"[{step}]" if isinstance(step, int) else f".{step}" if self.path else step
        return Place(line, column, self.path + written)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value. ``quoted``: written so that it is text whatever it looks like."""

    place: Place
    value: Plain
    quoted: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """A sequence."""

    place: Place
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A mapping; its keys are text as they were written."""

    place: Place
    entries: dict[str, "Node"] = field(default_factory=dict)


Node = Scalar | Listing | Block


def plain_value(node: Node) -> Any:
    """The value without its places, as JSON knows it."""
    match node:
        case Scalar():
            return node.value
        case Listing():
            return [plain_value(item) for item in node.items]
        case Block():
            return {key: plain_value(value) for key, value in node.entries.items()}


def nodes_under(node: Node) -> Iterator[Node]:
    """``node`` and everything below it."""
    yield node
    children = node.items if isinstance(node, Listing) else node.entries.values() if isinstance(node, Block) else ()
    for child in children:
        yield from nodes_under(child)


def find_node(node: Node, path: tuple[str | int, ...]) -> tuple[Node, tuple[str | int, ...]]:
    """The node ``path`` leads to from ``node``, or the last one on the way and the steps that are left."""
    for depth, step in enumerate(path):
        match node:
            case Block() if str(step) in node.entries:
                node = node.entries[str(step)]
            case Listing() if isinstance(step, int) and step < len(node.items):
                node = node.items[step]
            case _:
                return node, path[depth:]
    return node, ()


class Report:
    """Collects every mistake of one file, so that its author sees them all at once."""

    def __init__(self, file_name: str) -> None:
        self._file_name = file_name
        self._mistakes: set[tuple[int, int, str, str]] = set()

    def add(self, place: Place, what: str) -> None:
        """Say what is wrong at ``place``; saying it twice counts once."""
        self._mistakes.add((place.line, place.column, place.path, what))

    @property
    def count(self) -> int:
        """How many mistakes were found so far."""
        return len(self._mistakes)

    def lines(self) -> list[str]:
        """The mistakes in the order of the file, ``file:line:column path: what``."""
        return [
            f"{self._file_name}:{line}:{column}{' ' + path if path else ''}: {what}"
            for line, column, path, what in sorted(self._mistakes)
        ]

    def raise_if_any(self) -> None:
        """Raise TenantFileError when there is at least one mistake."""
        if self._mistakes:
            self.fail()

    def fail(self) -> NoReturn:
        """Raise TenantFileError with every mistake."""
        raise TenantFileError(self.lines())
