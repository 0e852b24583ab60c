"""The templates of a file: whether each parses, and everything it reads exists."""

from shared.rendering.kinds import Kind
from shared.rendering.liquid import TemplateMistakes, parse_template
from shared.rendering.syntax import Mistake, check_syntax
from shared.rendering.uses import Use, uses_of
from shared.suggestion import closest
from shared.tenantfile.nodes import Report
from shared.tenantfile.paths import Found, Paths, Unknown
from shared.tenantfile.sources import Localized, Source


class TemplateCheck:
    """Checks templates against ``paths``; where the schema behind them is broken itself (None), their grammar only."""

    def __init__(self, paths: Paths | None, report: Report) -> None:
        self._report = report
        self._paths = paths

    def check(self, text: Localized | None, kind: Kind) -> None:
        """Report what is wrong with ``text`` in any locale."""
        if text is not None:
            for _locales, source in text.each():
                self.check_source(source, kind)

    def check_source(self, source: Source, kind: Kind) -> None:
        """Report what is wrong with one template."""
        try:
            template = parse_template(source.text, kind)
        except TemplateMistakes as exc:
            self._complain(source, exc.mistakes)
            return
        self._complain(source, check_syntax(template))
        if self._paths is None:
            return
        for use in uses_of(template):
            if complaint := self._complaint(use, self._paths):
                self._report.add(source.place, f"{source.locate(use.line)}{complaint}")

    def _complain(self, source: Source, mistakes: list[Mistake]) -> None:
        for mistake in mistakes:
            self._report.add(source.place, f"{source.locate(mistake.line)}{mistake.what}")

    def _complaint(self, use: Use, paths: Paths) -> str | None:
        match paths.find(use.path):
            case Unknown() as unknown:
                return f"unknown variable {use.written}{_suggest(use, unknown, paths)}"
            case Found() as found:
                return _missing(use, found) or _unprintable(use, found)


def _missing(use: Use, found: Found) -> str | None:
    if not use.needed:
        return None
    for length in found.optional:
        prefix = use.path[:length]
        if not any(present[:length] == prefix for present in use.present):
            name = use.written if length == len(use.path) else _written(prefix)
            return f"{name} is optional: put it between {{% if {name} %}} and {{% endif %}}, or add | default: '…'"
    return None


def _unprintable(use: Use, found: Found) -> str | None:
    if not use.printed:
        return None
    match found.kind():
        case "object":
            fields = ", ".join(found.names()) or "it has none"
            return f"{use.written} is an object and cannot be printed; name one of its fields: {fields}"
        case "array":
            return f"{use.written} is a list; write a for, or | join: ', '"
    return None


def _suggest(use: Use, unknown: Unknown, paths: Paths) -> str:
    wrong = str(use.path[unknown.depth])
    if near := closest(wrong, unknown.known):
        return f", did you mean {_written((*use.path[: unknown.depth], near))}?"
    if unknown.depth == 0:
        payload = paths.find(("payload",))
        if isinstance(payload, Found) and (near := closest(wrong, payload.names())):
            return f", did you mean payload.{near}?"
    return ""


def _written(path: tuple[str | int, ...]) -> str:
    first, *rest = path
    return str(first) + "".join(f".{step}" if step != "[]" and isinstance(step, str) else "[…]" for step in rest)
