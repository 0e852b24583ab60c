"""Templates: source text compiled once, then rendered within bounds, with values escaped by kind."""

import re
from collections.abc import Mapping
from functools import lru_cache

from liquid import BoundTemplate
from liquid.exceptions import LiquidError
from liquid.output import LimitedStringIO

from shared.errors import RenderError
from shared.rendering.bounds import MAX_OUTPUT_BYTES, MAX_SOURCE_CHARACTERS, BoundedContext, Budget, Voice
from shared.rendering.grammar import TAG_WORDS, KindEnvironment
from shared.rendering.kinds import Kind
from shared.rendering.syntax import Mistake, check_syntax
from shared.suggestion import did_you_mean

_UNEXPECTED_TAG = re.compile(r"unexpected tag '(.*)'")
_ENVIRONMENTS = {kind: KindEnvironment(kind) for kind in Kind}


class TemplateMistakes(RenderError):
    """A template that is not one: every mistake with its line."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("; ".join(f"line {mistake.line}: {mistake.what}" for mistake in mistakes))
        self.mistakes = mistakes


def parse_template(source: str, kind: Kind) -> BoundTemplate:
    """``source`` parsed, its constructs not looked at yet; raises TemplateMistakes when it is no Liquid."""
    if len(source) > MAX_SOURCE_CHARACTERS:
        raise TemplateMistakes([Mistake(1, f"it is longer than {MAX_SOURCE_CHARACTERS} characters")])
    try:
        return _ENVIRONMENTS[kind].from_string(source)
    except LiquidError as exc:
        raise TemplateMistakes([Mistake(line_of(source, exc), _words(exc))]) from exc


@lru_cache(maxsize=4096)
def compile_template(source: str, kind: Kind) -> BoundTemplate:
    """``source`` ready to be rendered as output of ``kind``, from a cache; raises TemplateMistakes."""
    template = parse_template(source, kind)
    if mistakes := check_syntax(template):
        raise TemplateMistakes(mistakes)
    return template


def render(source: str, kind: Kind, name: str, variables: Mapping[str, object], voice: Voice, budget: Budget) -> str:
    """The output of ``source``; ``name`` is what the template is called in errors.

    Raises RenderError naming the template, the line and what failed.
    """
    template = compile_template(source, kind)
    buffer = LimitedStringIO(limit=MAX_OUTPUT_BYTES)
    try:
        template.render_with_context(BoundedContext(template, variables, voice, budget), buffer)
    except LiquidError as exc:
        raise RenderError(f"{name}, line {line_of(source, exc)}: {_words(exc)}") from exc
    except (RecursionError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as exc:
        # Values the library did not foresee, say a number of five thousand digits.
        raise RenderError(f"{name}: a value it cannot work with ({type(exc).__name__})") from exc
    return buffer.getvalue()


def line_of(source: str, exc: LiquidError) -> int:
    """The line of ``source`` that ``exc`` speaks of; the last one when it speaks of the end."""
    at = exc.token.start_index if exc.token is not None else 0
    return source.count("\n", 0, at if at >= 0 else len(source)) + 1


def _words(exc: LiquidError) -> str:
    words = str(exc.message or type(exc).__name__).splitlines()[0]
    if tag := _UNEXPECTED_TAG.fullmatch(words):
        return words if tag[1] in TAG_WORDS else f"unknown tag {tag[1]}{did_you_mean(tag[1], TAG_WORDS)}"
    return words
