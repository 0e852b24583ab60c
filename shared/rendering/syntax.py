"""What is refused in a template beyond its grammar, so that no rendering can run away."""

from collections.abc import Iterator
from dataclasses import dataclass

from liquid import BoundTemplate, RenderContext
from liquid.ast import Node
from liquid.builtin.expressions import FilteredExpression, LoopExpression, Path
from liquid.builtin.expressions.primitive import IntegerLiteral, RangeLiteral
from liquid.builtin.tags.for_tag import BreakNode, ContinueNode, ForNode
from liquid.expression import Expression
from liquid.token import Token

from shared.rendering.bounds import MAX_ITEMS
from shared.rendering.filters import INSTEAD
from shared.rendering.grammar import FILTERS
from shared.suggestion import did_you_mean


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing wrong with a template, and its line."""

    line: int
    what: str


def check_syntax(template: BoundTemplate) -> list[Mistake]:
    """Every refused construct of ``template``, in the order of its text."""
    context = RenderContext(template)
    return [mistake for node in template.nodes for mistake in _check_node(node, context, in_loop=False)]


def line_at(token: Token) -> int:
    """The line ``token`` begins on."""
    return token.source.count("\n", 0, max(token.start_index, 0)) + 1


def _check_node(node: Node, context: RenderContext, *, in_loop: bool) -> Iterator[Mistake]:
    if isinstance(node, BreakNode | ContinueNode) and not in_loop:
        yield Mistake(line_at(node.token), f"{node} stands outside a for")
    for expression in node.expressions():
        yield from _check_expression(expression)
    for child in node.children(context):
        yield from _check_node(child, context, in_loop=in_loop or isinstance(node, ForNode))


def _check_expression(expression: Expression) -> Iterator[Mistake]:
    match expression:
        case RangeLiteral():
            yield Mistake(line_at(expression.token), f"a range like {expression} may only stand in a for")
            return
        case LoopExpression(iterable=RangeLiteral() as bounds):
            yield from _check_range(bounds)
            rest = [expression.limit, expression.offset]
            children = [child for child in rest if child is not None]
        case Path() if any(isinstance(segment, Path) for segment in expression.path):
            what = f"{expression} is looked up by another value; name the field itself"
            yield Mistake(line_at(expression.token), what)
            return
        case FilteredExpression():
            yield from _check_filters(expression)
            children = expression.children()
        case _:
            children = list(expression.children())
    for child in children:
        yield from _check_expression(child)


def _check_range(bounds: RangeLiteral) -> Iterator[Mistake]:
    if not (isinstance(bounds.start, IntegerLiteral) and isinstance(bounds.stop, IntegerLiteral)):
        yield Mistake(line_at(bounds.token), f"the bounds of {bounds} must be plain numbers")
    elif bounds.stop.value - bounds.start.value >= MAX_ITEMS:
        yield Mistake(line_at(bounds.token), f"{bounds} has more than {MAX_ITEMS} numbers")


def _check_filters(expression: FilteredExpression) -> Iterator[Mistake]:
    for used in expression.filters or []:
        if used.name not in FILTERS:
            instead = INSTEAD.get(used.name)
            hint = f", {instead}" if instead else did_you_mean(used.name, FILTERS)
            yield Mistake(line_at(used.token), f"unknown filter {used.name}{hint}")
