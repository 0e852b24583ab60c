"""Partials: texts that a tenant file names once, and that its templates take in with ``{% render 'name' %}``.

They are put in when the file is read, so that whatever renders a template later knows nothing of them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from shared.suggestion import did_you_mean
from shared.tenantfile.nodes import Report
from shared.tenantfile.sources import Localized, Origin, Source

_RENDER = re.compile(r"{%(?P<left>-?)\s*render\b(?P<what>.*?)(?P<right>-?)%}", re.DOTALL)
_NAME = re.compile(r"""\s*(?P<quote>['"])(?P<name>[^'"]+)(?P=quote)\s*""")
_Piece = tuple[str, str, int]
"""A text, the name of where it was written, and the line it began on there."""


class Partials:
    """The partials of one file, ``by_name``."""

    def __init__(self, by_name: Mapping[str, Localized], report: Report) -> None:
        self._by_name = by_name
        self._report = report

    def put_into(self, source: Source, locale: str | None) -> Source | None:
        """``source`` with its partials in ``locale`` (None: it is one text for all); None when there is a mistake."""
        if _RENDER.search(source.text) is None:
            return source
        before = self._report.count
        pieces = list(self._pieces(source, locale))
        if self._report.count > before:
            return None
        return replace(source, text="".join(text for text, _, _ in pieces), origins=_origins(pieces))

    def _pieces(self, source: Source, locale: str | None) -> Iterator[_Piece]:
        end, trims = 0, False
        for found in _RENDER.finditer(source.text):
            written = source.text[end : found.start()]
            yield _piece(source, written.rstrip() if found["left"] else written, end, trims=trims)
            line = source.text.count("\n", 0, found.start()) + 1
            if (partial := self._find(source, line, found["what"], locale)) is not None:
                yield partial.text.rstrip("\n"), partial.file or "", 1
            end, trims = found.end(), bool(found["right"])
        yield _piece(source, source.text[end:], end, trims=trims)

    def _find(self, source: Source, line: int, what: str, locale: str | None) -> Source | None:
        named = _NAME.fullmatch(what)
        name = "" if named is None else named["name"]
        partial = self._by_name.get(name)
        problem = self._problem(name, partial, locale)
        if problem is not None or partial is None:
            self._report.add(source.place, f"{source.locate(line)}{problem}")
            return None
        chosen = next(iter(partial.sources.values())) if locale is None else partial.sources[locale]
        # A mistake in it is told with its name, whether or not it has a file.
        return replace(chosen, file=chosen.file or f"partial {name}")

    def _problem(self, name: str, partial: Localized | None, locale: str | None) -> str | None:
        if not name:
            return "write {% render 'name' %} with the name of one of partials, and nothing behind it"
        if partial is None:
            return f"unknown partial {name}{did_you_mean(name, self._by_name)}"
        texts = {source.text for source in partial.sources.values()}
        if locale is None and len(texts) > 1:
            return f"partial {name} is another text in each locale, and this template is the same in all"
        if any(_RENDER.search(text) for text in texts):
            return f"partial {name} takes in another one, which is not built in this release"
        return None


def _piece(source: Source, text: str, start: int, *, trims: bool) -> _Piece:
    """What stands in ``source`` from ``start`` on; ``trims``: the tag before it takes the blanks away."""
    kept = text.lstrip() if trims else text
    first = source.text.count("\n", 0, start + len(text) - len(kept)) + 1
    return kept, source.file or "", first


def _origins(pieces: list[_Piece]) -> tuple[Origin, ...]:
    origins = [Origin(pieces[0][1], 1)]
    for text, name, first in pieces:
        origins += [Origin(name, first + number) for number in range(1, text.count("\n") + 1)]
    return tuple(origins)
