"""YAML 1.2 with places: from the bytes of a tenant file to its nodes.

Our own walk over ruamel's events, because every loader resolves too much: here only plain scalars are resolved,
by the core schema of YAML 1.2, and everything that can mean something else than it looks like is refused.
"""

import re
from collections.abc import Iterator
from typing import NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from shared.tenantfile.nodes import Block, Listing, Node, Place, Report, Scalar
from shared.tenantfile.scalars import AmbiguousScalar, resolve_plain

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 60

_START = Place(1, 1)
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def load(source: bytes, report: Report) -> Node:
    """The nodes of ``source``. What is refused is added to ``report``; what cannot be read at all raises."""
    if len(source) > MAX_BYTES:
        report.add(_START, f"the file is larger than {MAX_BYTES // 1024} KiB")
        report.fail()
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = source.count(b"\n", 0, exc.start) + 1
        report.add(Place(line, 1), "the file is not UTF-8")
        report.fail()
    try:
        return _Walk(_events(text), report).document()
    except MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        place = _START if mark is None else Place(mark.line + 1, mark.column + 1)
        report.add(place, f"this is not YAML: {exc.problem or exc.context}")
        report.fail()
    except YAMLError as exc:
        report.add(_START, f"this is not YAML: {str(exc).splitlines()[0]}")
        report.fail()


def _events(text: str) -> Iterator[Event]:
    events: Iterator[Event] = YAML(typ="safe", pure=True).parse(text)
    return events


class _Walk:
    def __init__(self, events: Iterator[Event], report: Report) -> None:
        self._events = events
        self._report = report

    def document(self) -> Node:
        next(self._events)  # the start of the stream
        event = next(self._events)
        if isinstance(event, StreamEndEvent):
            self._stop(_START, "the file is empty")
        if isinstance(event, DocumentStartEvent) and (event.version or event.tags):
            self._report.add(_START, "directives (%YAML, %TAG) are refused: the file is YAML 1.2 as it is")
        node = self._node(next(self._events), _START, 0)
        next(self._events)  # the end of the document
        if not isinstance(event := next(self._events), StreamEndEvent):
            self._report.add(_place_of(event), "only one document per file")
        return node

    def _node(self, event: Event, place: Place, depth: int) -> Node:
        if depth > MAX_DEPTH:
            self._stop(place, f"nested more than {MAX_DEPTH} levels deep")
        if isinstance(event, AliasEvent):
            self._stop(place, f"aliases (*{event.anchor}) are refused: write the value again")
        if isinstance(event, NodeEvent) and event.anchor:
            self._report.add(place, f"anchors (&{event.anchor}) are refused: write the value where it belongs")
        if getattr(event, "tag", None):
            self._report.add(place, "tags (!…) are refused")
        match event:
            case ScalarEvent():
                return self._scalar(event, place)
            case SequenceStartEvent():
                return Listing(place, tuple(self._items(place, depth)))
            case MappingStartEvent():
                return Block(place, self._entries(place, depth))
        self._stop(place, "this is not YAML")

    def _scalar(self, event: ScalarEvent, place: Place) -> Scalar:
        event.value = self._storable(event.value, place)
        if event.style is not None:
            return Scalar(place, event.value, quoted=True)
        try:
            return Scalar(place, resolve_plain(event.value), quoted=False)
        except AmbiguousScalar as exc:
            self._report.add(place, str(exc))
            return Scalar(place, event.value, quoted=False)

    def _storable(self, text: str, place: Place) -> str:
        """``text`` as Postgres and UTF-8 can hold it; what they cannot hold is a mistake."""
        if _UNSTORABLE.search(text):
            self._report.add(place, "has a NUL or half of a surrogate pair in it; write the character itself")
        return _UNSTORABLE.sub("", text)

    def _items(self, place: Place, depth: int) -> Iterator[Node]:
        for index, event in enumerate(iter(lambda: next(self._events), None)):
            if isinstance(event, SequenceEndEvent):
                return
            mark = event.start_mark
            yield self._node(event, place.child(mark.line + 1, mark.column + 1, index), depth + 1)

    def _entries(self, place: Place, depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            key_place = _place_of(event)
            if not isinstance(event, ScalarEvent):
                self._stop(Place(key_place.line, key_place.column, place.path), "a key must be plain text")
            name = self._storable(event.value, key_place)
            at = place.child(key_place.line, key_place.column, name)
            if event.anchor or event.tag:
                self._report.add(at, "anchors and tags are refused")
            if name == "<<" and event.style is None:
                self._report.add(at, "merges (<<) are refused: write the values where they belong")
            node = self._node(next(self._events), at, depth + 1)
            if name in entries:
                first = entries[name].place
                self._report.add(at, f"this key is given twice, first in line {first.line}")
            else:
                entries[name] = node
        return entries

    def _stop(self, place: Place, what: str) -> NoReturn:
        self._report.add(place, what)
        self._report.fail()


def _place_of(event: Event) -> Place:
    return Place(event.start_mark.line + 1, event.start_mark.column + 1)
