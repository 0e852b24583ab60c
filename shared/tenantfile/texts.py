"""Texts of the file: one for every locale, or one per locale, written in place or in a file beside it."""

from pathlib import Path

from shared.rendering.bounds import MAX_SOURCE_CHARACTERS
from shared.rendering.locales import choose_locale
from shared.suggestion import did_you_mean
from shared.tenantfile.nodes import Block, Node, Place, Report, Scalar
from shared.tenantfile.partials import Partials
from shared.tenantfile.section import as_text
from shared.tenantfile.sources import Localized, Source


class TextReader:
    """Reads texts for ``locales``; files are read from ``folder`` and nowhere else. ``partials`` are put into them."""

    def __init__(self, folder: Path, locales: tuple[str, ...], report: Report) -> None:
        self._folder = folder.resolve()
        self._locales = locales
        self.report = report
        self.partials: Partials | None = None

    def read(self, node: Node | None) -> Localized | None:
        """The text under ``node`` in every locale; None when there is none, or a mistake."""
        if node is None:
            return None
        if isinstance(node, Block) and set(node.entries) != {"file"}:
            return self._per_locale(node)
        source = self._as_written(node)
        return None if source is None else self._whole(dict.fromkeys(self._locales, source))

    def source(self, node: Node) -> Source | None:
        """The one text under ``node``, for all locales; None and a mistake when there is none."""
        source = self._as_written(node)
        return None if source is None else self._put_partials_into(source, None)

    def _whole(self, written: dict[str, Source]) -> Localized | None:
        """The text with its partials put in, which may be other ones in every locale."""
        whole = {locale: self._put_partials_into(source, locale) for locale, source in written.items()}
        found = {locale: source for locale, source in whole.items() if source is not None}
        return Localized(found) if len(found) == len(written) else None

    def _put_partials_into(self, source: Source, locale: str | None) -> Source | None:
        return source if self.partials is None else self.partials.put_into(source, locale)

    def _as_written(self, node: Node) -> Source | None:
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
            elif (source := self._as_written(child)) is None:
                complete = False
            else:
                written[locale] = source
        missing = [locale for locale in self._locales if not self._is_served(locale, node)]
        if missing:
            self.report.add(node.place, f"has no text for {', '.join(missing)}")
        if missing or not complete:
            return None
        return self._whole({name: written[choose_locale(name, list(written))] for name in self._locales})

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
