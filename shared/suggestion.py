"""What somebody probably meant: the known word nearest to a misspelt one."""

import difflib
from collections.abc import Iterable


def closest(word: str, known: Iterable[str]) -> str | None:
    """The word of ``known`` that looks most like ``word``, or None when none does."""
    near = difflib.get_close_matches(word[:200], list(known), n=1, cutoff=0.6)
    return near[0] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``, did you mean …?`` to be put behind a complaint about ``word``; empty when nothing is near."""
    near = closest(word, known)
    return "" if near is None else f", did you mean {near}?"
