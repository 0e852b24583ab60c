"""The sources of templates: one for every locale, or one per locale, and where each of their lines was written."""

from collections.abc import Iterator
from dataclasses import dataclass

from shared.tenant import Texts
from shared.tenantfile.nodes import Place


@dataclass(frozen=True, slots=True)
class Origin:
    """A line as its author knows it: ``name`` is its file or partial, '' for a text in the tenant file itself."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Source:
    """One template: where it is named in the tenant file, its text, and the file it came from, if any.

    ``origins``: where each line of it was written, when partials have been put in; () otherwise.
    """

    place: Place
    text: str
    file: str | None = None
    origins: tuple[Origin, ...] = ()

    def locate(self, line: int) -> str:
        """Words that say which line of the text is meant; empty when there is only one."""
        if self.origins:
            origin = self.origins[min(line, len(self.origins)) - 1]
            return f"{origin.name} line {origin.line}: " if origin.name else f"line {origin.line}: "
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
