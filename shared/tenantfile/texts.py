"""Texts of the file: one for every locale, or one per locale, written in place or in a file beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shared.rendering.bounds import MAX_SOURCE_CHARACTERS
from shared.rendering.locales import choose_locale
from shared.suggestion import did_you_mean
from shared.tenant import Texts
from shared.tenantfile.nodes import Block, Node, Place, Report, Scalar
from shared.tenantfile.section import as_text


@dataclass(frozen=True, slots=True)
class Source:
    """One template: where it is named in the tenant file, its text, and the file it came from, if any."""

    place: Place
    text: str
    file: str | None = None

    def locate(self, line: int) -> str:
        """Words that say which line of the text is meant; empty when there is only one."""
        if self.file is not None:
            return f"{self.file} line {line}: "
        return f"line {line}: " if "\n" in self.text.rstrip("\n") else ""


@dataclass(frozen=True, slots=True)
class Localized:
    """One text of the file with its source in every locale of the tenant."""

    sources: dict[str, Source]

    def texts(self) -> Texts:
        """What goes into the model."""
        return {locale: source.text for locale, source in self.sources.items()}

    def each(self) -> Iterator[tuple[list[str], Source]]:
        """Every source once, with the locales it serves."""
        seen: dict[tuple[Place, str], tuple[list[str], Source]] = {}
        for locale, source in self.sources.items():
            seen.setdefault((source.place, source.text), ([], source))[0].append(locale)
        yield from seen.values()


class TextReader:
    """Reads texts for ``locales``; files are read from ``folder`` and nowhere else."""

    def __init__(self, folder: Path, locales: tuple[str, ...], report: Report) -> None:
        self._folder = folder.resolve()
        self._locales = locales
        self.report = report

    def read(self, node: Node | None) -> Localized | None:
        """The text under ``node`` in every locale; None when there is none, or a mistake."""
        if node is None:
            return None
        if isinstance(node, Block) and set(node.entries) != {"file"}:
            return self._per_locale(node)
        source = self.source(node)
        return None if source is None else Localized(dict.fromkeys(self._locales, source))

    def source(self, node: Node) -> Source | None:
        """The one text under ``node``, for all locales; None and a mistake when there is none."""
        if isinstance(node, Block):
            if set(node.entries) != {"file"}:
                self.report.add(node.place, "must be text or {file: …}")
                return None
            return self._from_file(node.entries["file"], node.place)
        text = as_text(node, self.report)
        return None if text is None else Source(node.place, text)

    def _per_locale(self, node: Block) -> Localized | None:
        written: dict[str, Source] = {}
        complete = True
        for locale, child in node.entries.items():
            if locale not in self._locales:
                hint = did_you_mean(locale, self._locales) or f"; the file's are {', '.join(self._locales)}"
                self.report.add(child.place, f"unknown locale {locale}{hint}")
                complete = False
            elif (source := self.source(child)) is None:
                complete = False
            else:
                written[locale] = source
        missing = [locale for locale in self._locales if not self._is_served(locale, node)]
        if missing:
            self.report.add(node.place, f"has no text for {', '.join(missing)}")
        if missing or not complete:
            return None
        return Localized({name: written[choose_locale(name, list(written))] for name in self._locales})

    def _is_served(self, locale: str, node: Block) -> bool:
        parts = locale.split("-")
        return any("-".join(parts[:length]) in node.entries for length in range(len(parts), 0, -1))

    def _from_file(self, node: Node, place: Place) -> Source | None:
        name = as_text(node, self.report)
        if name is None or not isinstance(node, Scalar):
            return None
        try:
            path = (self._folder / name).resolve()
            if Path(name).is_absolute() or not path.is_relative_to(self._folder):
                self.report.add(place, f"{name} lies outside the folder of the tenant file")
                return None
            with path.open("rb") as file:
                text = file.read(4 * MAX_SOURCE_CHARACTERS + 1).decode("utf-8-sig")
        except UnicodeDecodeError:
            self.report.add(place, f"{name} is not UTF-8")
        except (OSError, ValueError) as exc:
            why = exc.strerror if isinstance(exc, OSError) and exc.strerror else "is no file name"
            self.report.add(place, f"{name} cannot be read: {why}")
        else:
            if text.strip():
                return Source(place, text.replace("\r\n", "\n"), name)
            self.report.add(place, f"{name} is empty")
        return None
