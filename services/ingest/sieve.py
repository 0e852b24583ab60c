"""A page of a list whose filters no index answers alone: found in portions, sieved, and bounded."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

K = TypeVar("K")
P = TypeVar("P")

Find: TypeAlias = Callable[[P | None, int], Awaitable[Sequence[K]]]
"""The next so many keys after a place (None: from the newest on), in the order of the list."""
Sieve: TypeAlias = Callable[[Sequence[K]], Awaitable[Sequence[K]]]
"""Those of the keys that are wanted, in their order."""

PORTION = 500
MOST_PORTIONS = 10


async def find_page(
    find: "Find[P, K]", place_of: Callable[[K], P], sieve: "Sieve[K] | None", after: P | None, limit: int
) -> tuple[Sequence[K], P | None]:
    """At most ``limit`` keys, and the place after which the next page begins; None when there is none.

    Where there is something to sieve, a page ends after 5,000 keys at the latest: it may be short, or even empty,
    and still not be the last.
    """
    if sieve is None:
        keys = await find(after, limit + 1)
        return keys[:limit], place_of(keys[limit - 1]) if len(keys) > limit else None
    found: list[K] = []
    for _ in range(MOST_PORTIONS):
        keys = await find(after, PORTION)
        found += await sieve(keys)
        if len(found) > limit:
            return found[:limit], place_of(found[limit - 1])
        if len(keys) < PORTION:
            return found, None
        after = place_of(keys[-1])
    return found, after
