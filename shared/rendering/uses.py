"""Which values a template reads, and which of them it guards: a walk of its tree.

A value is guarded inside the branch of an ``if``, ``unless`` or ``case`` that is only taken when the value is
there, and in front of ``| default``. Comparing a missing value is harmless; printing, filtering and looping is not.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from liquid import BoundTemplate
from liquid.ast import BlockNode, Node
from liquid.builtin.expressions import FilteredExpression, Path
from liquid.builtin.expressions.primitive import Literal
from liquid.builtin.output import OutputNode
from liquid.builtin.tags.assign_tag import AssignNode
from liquid.builtin.tags.capture_tag import CaptureNode
from liquid.builtin.tags.case_tag import CaseNode, MultiExpressionBlockNode
from liquid.builtin.tags.for_tag import ForNode
from liquid.builtin.tags.if_tag import IfNode
from liquid.builtin.tags.unless_tag import UnlessNode
from liquid.expression import Expression

from shared.rendering.conditions import Facts, Segments, facts_of, paths_in
from shared.rendering.syntax import line_at

ITEM: Final = "[]"
"""The segment that stands for any item of a list."""

Scope = dict[str, Segments | None]
"""What each name of the template's own stands for: a path, or None for a value made by the template."""


@dataclass(frozen=True, slots=True)
class Use:
    """One place where a template reads a value.

    ``needed``: it must be there, or rendering fails. ``present``: the paths known to be there in this place.
    ``printed``: it is written out as it is.
    """

    path: Segments
    written: str
    line: int
    needed: bool
    printed: bool
    present: frozenset[Segments]


def uses_of(template: BoundTemplate) -> list[Use]:
    """Every read of a value that is not the template's own, in the order of its text."""
    walk = _Walk()
    walk.block(template.nodes, {}, frozenset())
    return walk.uses


class _Walk:
    def __init__(self) -> None:
        self.uses: list[Use] = []

    def block(self, nodes: Iterable[Node], scope: Scope, present: frozenset[Segments]) -> Scope:
        for node in nodes:
            scope = self._node(node, scope, present)
        return scope

    def _node(self, node: Node, scope: Scope, present: frozenset[Segments]) -> Scope:
        match node:
            case OutputNode():
                self._filtered(node.expression, scope, present, printed=True)
            case AssignNode():
                self._filtered(node.expression, scope, present, printed=False)
                return {**scope, str(node.name): self._meaning(node.expression, scope)}
            case CaptureNode():
                return {**self.block(node.block.nodes, scope, present), str(node.name): None}
            case IfNode() | UnlessNode():
                return self._branches(node, scope, present)
            case CaseNode():
                return self._case(node, scope, present)
            case ForNode():
                return self._loop(node, scope, present)
            case BlockNode():
                return self.block(node.nodes, scope, present)
            case _:
                pass
        return scope

    def _branches(self, node: IfNode | UnlessNode, scope: Scope, present: frozenset[Segments]) -> Scope:
        first = self._condition(node.condition, scope, present)
        if isinstance(node, UnlessNode):
            first = Facts(first.when_false, first.when_true)
        ends = [self.block(node.consequence.nodes, scope, present | first.when_true)]
        present |= first.when_false
        for branch in node.alternatives:
            facts = self._condition(branch.expression, scope, present)
            ends.append(self.block(branch.block.nodes, scope, present | facts.when_true))
            present |= facts.when_false
        ends.append(self.block(node.default.nodes, scope, present) if node.default else scope)
        return _known_after(ends)

    def _condition(self, condition: Expression, scope: Scope, present: frozenset[Segments]) -> Facts:
        for path in paths_in(condition):
            self._use(path, scope, present, needed=False, printed=False)
        return facts_of(condition, lambda path: self._resolve(path, scope))

    def _case(self, node: CaseNode, scope: Scope, present: frozenset[Segments]) -> Scope:
        for path in paths_in(node.expression):
            self._use(path, scope, present, needed=False, printed=False)
        subject = self._meaning(node.expression, scope)
        ends, has_else = [], False
        for block in node.blocks:
            if isinstance(block, MultiExpressionBlockNode):
                for path in paths_in(block.expression):
                    self._use(path, scope, present, needed=False, printed=False)
                # `when nil` is also taken for a missing value.
                proves = all(isinstance(value, Literal) for value in block.expression.children())
                known = present | {subject} if proves and subject is not None else present
                ends.append(self.block(block.block.nodes, scope, known))
            else:
                has_else = True
                ends.append(self.block([block], scope, present))
        return _known_after(ends if has_else else [*ends, scope])

    def _loop(self, node: ForNode, scope: Scope, present: frozenset[Segments]) -> Scope:
        loop = node.expression
        for expression in (loop.iterable, loop.limit, loop.offset):
            for path in [] if expression is None else paths_in(expression):
                self._use(path, scope, present, needed=True, printed=False)
        subject = self._meaning(loop.iterable, scope)
        item = None if subject is None else (*subject, ITEM)
        end = self.block(node.block.nodes, {**scope, str(loop.identifier): item, "forloop": None}, present)
        if node.default:
            self.block(node.default.nodes, scope, present)
        return _known_after([scope, end])

    def _filtered(self, expression: Expression, scope: Scope, present: frozenset[Segments], *, printed: bool) -> None:
        if not isinstance(expression, FilteredExpression):
            return
        filters = expression.filters or []
        has_default = bool(filters) and filters[0].name == "default"
        for path in paths_in(expression.left):
            self._use(path, scope, present, needed=not has_default, printed=printed and not filters)
        for used in filters:
            for path in (path for argument in used.children() for path in paths_in(argument)):
                self._use(path, scope, present, needed=True, printed=False)

    def _use(self, path: Path, scope: Scope, present: frozenset[Segments], *, needed: bool, printed: bool) -> None:
        segments = self._resolve(path, scope)
        # A path with another one in it is refused elsewhere; what it would read, nobody knows.
        if segments is not None and not path.children():
            line = line_at(path.token)
            self.uses.append(Use(segments, str(path), line, needed, printed, present))

    def _meaning(self, expression: Expression, scope: Scope) -> Segments | None:
        if isinstance(expression, FilteredExpression):
            return None if expression.filters else self._meaning(expression.left, scope)
        return self._resolve(expression, scope) if isinstance(expression, Path) else None

    def _resolve(self, path: Path, scope: Scope) -> Segments | None:
        segments = tuple(segment for segment in path.path if not isinstance(segment, Path))
        name = segments[0]
        if not isinstance(name, str) or name not in scope:
            return segments
        meaning = scope[name]
        return None if meaning is None else (*meaning, *segments[1:])


def _known_after(ends: Sequence[Scope]) -> Scope:
    """What is known behind branches that ended with ``ends``: a name only one of them made is not."""
    first, *others = ends
    shared = [name for name in first if all(name in other for other in others)]
    return {name: first[name] if all(other[name] == first[name] for other in others) else None for name in shared}
