"""What a condition proves: the values that are surely there when it holds, and when it does not."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from liquid.builtin.expressions import Path
from liquid.builtin.expressions.logical import (
    BooleanExpression,
    ContainsExpression,
    EqExpression,
    GeExpression,
    GtExpression,
    LeExpression,
    LogicalAndExpression,
    LogicalOrExpression,
    LtExpression,
    NeExpression,
)
from liquid.builtin.expressions.primitive import Literal, Nil
from liquid.expression import Expression

Segments = tuple[str | int, ...]
Resolve = Callable[[Path], Segments | None]

_NOTHING: frozenset[Segments] = frozenset()
_ORDERINGS = LtExpression | LeExpression | GtExpression | GeExpression | ContainsExpression


@dataclass(frozen=True, slots=True)
class Facts:
    """The paths that are surely there when a condition holds, and when it does not."""

    when_true: frozenset[Segments]
    when_false: frozenset[Segments]


def facts_of(condition: Expression, resolve: Resolve) -> Facts:
    """What ``condition`` proves about the paths it speaks of."""
    match condition:
        case BooleanExpression():
            return facts_of(condition.expression, resolve)
        case LogicalAndExpression():
            left, right = facts_of(condition.left, resolve), facts_of(condition.right, resolve)
            return Facts(left.when_true | right.when_true, left.when_false & right.when_false)
        case LogicalOrExpression():
            left, right = facts_of(condition.left, resolve), facts_of(condition.right, resolve)
            return Facts(left.when_true & right.when_true, left.when_false | right.when_false)
        case EqExpression():
            return _equality(condition.left, condition.right, resolve)
        case NeExpression():
            equal = _equality(condition.left, condition.right, resolve)
            return Facts(equal.when_false, equal.when_true)
        case Path():
            return Facts(_paths(condition, resolve), _NOTHING)
        case _ if isinstance(condition, _ORDERINGS):
            # The library takes every ordering with a missing value for false, and contains as well.
            return Facts(_paths(condition.left, resolve) | _paths(condition.right, resolve), _NOTHING)
        case _:
            return Facts(_NOTHING, _NOTHING)


def paths_in(expression: Expression) -> Iterator[Path]:
    """Every path ``expression`` reads."""
    if isinstance(expression, Path):
        yield expression
        return
    for child in expression.children():
        yield from paths_in(child)


def _equality(left: Expression, right: Expression, resolve: Resolve) -> Facts:
    if isinstance(left, Path) and isinstance(right, Path):
        # Two missing values are equal.
        return Facts(_NOTHING, _NOTHING)
    path, other = (left, right) if isinstance(left, Path) else (right, left)
    paths = _paths(path, resolve)
    if isinstance(other, Nil):
        return Facts(_NOTHING, paths)
    return Facts(paths if isinstance(other, Literal) else _NOTHING, _NOTHING)


def _paths(expression: Expression, resolve: Resolve) -> frozenset[Segments]:
    segments = resolve(expression) if isinstance(expression, Path) else None
    return _NOTHING if segments is None else frozenset({segments})
