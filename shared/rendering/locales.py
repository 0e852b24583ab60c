"""Which of a tenant's locales a recipient reads."""

from collections.abc import Sequence


def choose_locale(wanted: str | None, available: Sequence[str]) -> str:
    """The one of ``available`` nearest to ``wanted``: itself, then its language (de-AT, de), else the first."""
    known = {_normal(name): name for name in reversed(available)}
    parts = [] if wanted is None else _normal(wanted).split("-")
    while parts:
        if found := known.get("-".join(parts)):
            return found
        parts.pop()
    return available[0]


def _normal(name: str) -> str:
    return name.replace("_", "-").lower()
