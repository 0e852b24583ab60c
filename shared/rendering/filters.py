"""The filters a template may use: an allow-list, each bounded in what it takes and in what it makes.

Left out on purpose: everything that switches escaping off or does it twice (``safe``, ``escape``), everything
that reads the clock (``date``), and whatever takes more than a linear look at its input.
"""

from collections.abc import Callable
from typing import Any

from liquid.builtin.filters import array, math, misc, string
from liquid.exceptions import LiquidError, UndefinedError
from liquid.undefined import is_undefined

from shared.rendering.bounds import MAX_ITEMS, MAX_VALUE_CHARACTERS, BadValue, BoundedContext
from shared.rendering.formats import format_instant, format_money

_MAX_NUMBER = 10**30

_LIBRARY: dict[str, Callable[..., Any]] = {
    "abs": math.abs_,
    "append": string.append,
    "at_least": math.at_least,
    "at_most": math.at_most,
    "capitalize": string.capitalize,
    "ceil": math.ceil,
    "compact": array.compact,
    "concat": array.concat,
    "datetime": format_instant,
    "default": misc.default,
    "divided_by": math.divided_by,
    "downcase": string.downcase,
    "first": array.first,
    "floor": math.floor,
    "join": array.join,
    "last": array.last,
    "lstrip": string.lstrip,
    "map": array.map_,
    "minus": math.minus,
    "modulo": math.modulo,
    "money": format_money,
    "plus": math.plus,
    "prepend": string.prepend,
    "remove": string.remove,
    "remove_first": string.remove_first,
    "replace": string.replace,
    "replace_first": string.replace_first,
    "reverse": array.reverse,
    "round": math.round_,
    "rstrip": string.rstrip,
    "size": misc.size,
    "slice": string.slice_,
    "sort": array.sort,
    "split": string.split,
    "squish": string.squish,
    "strip": string.strip,
    "sum": array.sum_,
    "times": math.times,
    "truncate": string.truncate,
    "truncatewords": string.truncatewords,
    "uniq": array.uniq,
    "upcase": string.upcase,
    "where": array.where,
}

INSTEAD = {
    "date": "use datetime: format: '…'",
    "escape": "values are escaped by themselves",
    "escape_once": "values are escaped by themselves",
    "newline_to_br": "values are escaped by themselves",
    "safe": "values are always escaped",
    "url_encode": "values in a url are encoded by themselves",
}
"""What to write in place of filters people will look for."""


def bounded_filters() -> dict[str, Callable[..., Any]]:
    """Every allowed filter under its name."""
    return {name: _bounded(name, function) for name, function in _LIBRARY.items()}


def _bounded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    takes_context = getattr(function, "with_context", False)
    takes_environment = getattr(function, "with_environment", False)

    def run(left: object, *args: object, context: BoundedContext, **named: object) -> object:
        context.budget.step()
        if name != "default":
            _check_defined(left, *args, *named.values())
        for value in (left, *args, *named.values()):
            _check_size(name, value)
        _check_growth(name, left, args)
        extra: dict[str, object] = {"context": context} if takes_context else {}
        if takes_environment:
            extra["environment"] = context.env
        try:
            made: object = function(left, *args, **named, **extra)
        except BadValue:
            raise
        except (LiquidError, ArithmeticError, ValueError, AttributeError, LookupError) as exc:
            # The library's own words quote the value, and a payload is nobody's to read in a log.
            raise BadValue(f"{name} cannot work with this value") from exc
        _check_size(name, made)
        return made

    run.with_context = True  # type: ignore[attr-defined]  # how the library asks for its context
    return run


def _check_defined(*values: object) -> None:
    for value in values:
        if is_undefined(value):
            raise UndefinedError(value.msg, token=None)  # type: ignore[attr-defined]


def _check_size(name: str, value: object) -> None:
    match value:
        case str() if len(value) > MAX_VALUE_CHARACTERS:
            raise _too_large(name, f"more than {MAX_VALUE_CHARACTERS} characters")
        case list() | tuple() | range() if _count_leaves(value) > MAX_ITEMS:
            raise _too_large(name, f"more than {MAX_ITEMS} items")
        case bool():
            pass
        case int() | float() if abs(value) > _MAX_NUMBER:
            raise _too_large(name, "too large a number")
        case _:
            pass


def _count_leaves(value: object) -> int:
    # Lists within lists count as one: the library flattens them before it works on them.
    if isinstance(value, list | tuple):
        return sum(_count_leaves(item) for item in value) if value else 1
    return len(value) if isinstance(value, range) else 1


def _check_growth(name: str, left: object, args: tuple[object, ...]) -> None:
    # The size is reckoned beforehand: two values of a payload can multiply to gigabytes.
    if name == "replace" and len(args) >= 2:  # noqa: PLR2004 - its meaning stands beside it
        text, old, new = str(left), str(args[0]), str(args[1])
        if len(text) + text.count(old) * len(new) > MAX_VALUE_CHARACTERS:
            raise _too_large(name, f"more than {MAX_VALUE_CHARACTERS} characters")
    elif name == "join" and isinstance(left, list | tuple):
        between = str(args[0]) if args else " "
        characters = sum(len(str(item)) for item in left) + _count_leaves(left) * len(between)
        if characters > MAX_VALUE_CHARACTERS:
            raise _too_large(name, f"more than {MAX_VALUE_CHARACTERS} characters")
    elif name == "split" and args and len(str(left)) > MAX_ITEMS:  # noqa: SIM102 - two questions, asked in their order
        if str(left).count(str(args[0])) >= MAX_ITEMS:
            raise _too_large(name, f"more than {MAX_ITEMS} items")


def _too_large(name: str, what: str) -> BadValue:
    return BadValue(f"{name} would have {what}")
