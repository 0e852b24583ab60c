"""Dealing free slots to the lanes that wait: every scope in turn, lower lanes first, nobody left out. Pure."""

import sys
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from itertools import chain, islice
from types import MappingProxyType

from shared.ids import ScopeId
from shared.job import Lane
from shared.store.claim import LaneKey

NOBODY: Mapping[ScopeId, int] = MappingProxyType({})
LANE_PARTS = {Lane.TRANSACTIONAL: 14, Lane.TRANSACTIONAL_RETRY: 3, Lane.BULK: 2, Lane.BULK_RETRY: 1}
"""Of twenty slots dealt while every lane waits, how many go to each."""
OWED_EVERY = 7
"""Of so many deals, one begins with a lane that is not chosen by its part, each in turn: where a scope has room for one
job only, another of its lanes might always come first."""


def any_number(_scope_id: ScopeId) -> int:
    """No limit to how many jobs of a scope may be claimed."""
    return sys.maxsize


class Dealer:
    """The lanes that wait, in the order of their turns, and the rules by which ``slots`` are dealt to them.

    One scope holds at most half of the slots while another waits, and the last tenth goes to scopes that hold none:
    a flood leaves room for whoever comes next.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._kept = max(1, slots // 10)
        self._waiting: dict[Lane, dict[ScopeId, None]] = {lane: {} for lane in Lane}
        self._credit = dict.fromkeys(Lane, 0)
        self._deals = 0
        self._owed_in = 0

    def __bool__(self) -> bool:
        """Whether any lane waits."""
        return any(self._waiting.values())

    def add(self, key: LaneKey) -> None:
        """Have a lane wait for its turn; nothing changes when it does already."""
        scope_id, lane = key
        self._waiting[lane].setdefault(scope_id)

    def remove(self, key: LaneKey) -> None:
        """Have a lane wait no longer."""
        scope_id, lane = key
        self._waiting[lane].pop(scope_id, None)

    def deal(
        self,
        free: int,
        busy: Mapping[ScopeId, int] = NOBODY,
        most_of: Callable[[ScopeId], int] = any_number,
    ) -> dict[LaneKey, int]:
        """How many of ``free`` slots each lane gets; those that get none are left out.

        ``busy`` says how many slots a scope holds, ``most_of`` how many it may be given now (0: it is paused).
        """
        self._deals += 1
        # Asked once: the one job that may probe a broken circuit is offered to whoever asks first.
        most = cache(most_of)
        ceiling = self._ceiling(most)
        room = _Room(lambda scope_id: min(most(scope_id), ceiling - busy.get(scope_id, 0)))
        quotas: dict[LaneKey, int] = {}
        self._draw(room, free - self._kept, quotas)
        holders = {scope_id for scope_id, _ in quotas} | busy.keys()
        first = _Room(lambda scope_id: 0 if scope_id in holders else min(room.of(scope_id), 1))
        self._draw(first, free - sum(quotas.values()), quotas)
        for key in quotas:
            self.remove(key)
            self.add(key)
        return quotas

    def _ceiling(self, most_of: Callable[[ScopeId], int]) -> int:
        """How many slots one scope may hold: half of them while another may have some, too."""
        allowed: set[ScopeId] = set()
        for scope_id in chain.from_iterable(self._waiting.values()):
            if scope_id not in allowed and most_of(scope_id) > 0:
                allowed.add(scope_id)
                if len(allowed) > 1:
                    return max(1, self._slots // 2)
        return self._slots

    def _draw(self, room: "_Room", count: int, quotas: dict[LaneKey, int]) -> None:
        """Deal ``count`` slots as far as there is room; who was given the last one is last in ``quotas``."""
        # No more scopes than slots can have one.
        queues = {
            lane: deque(islice((scope_id for scope_id in scopes if room.of(scope_id) > 0), max(0, count)))
            for lane, scopes in self._waiting.items()
        }
        while count > 0:
            for queue in queues.values():
                while queue and room.of(queue[0]) <= 0:
                    queue.popleft()
            lanes = [lane for lane, queue in queues.items() if queue]
            if not lanes:
                return
            for lane, part in self._split(count, lanes).items():
                count -= _fill(lane, queues[lane], part, room, quotas)

    def _split(self, count: int, lanes: list[Lane]) -> dict[Lane, int]:
        """What to deal next of ``count`` slots: all lanes their parts, as often as it goes, or one.

        Credits (smooth weighted round robin) outlive the deal: a lane has its part however few slots a deal has.
        """
        if self._deals % OWED_EVERY == 0 and self._owed_in != self._deals:
            self._owed_in = self._deals
            return {lanes[self._deals // OWED_EVERY % len(lanes)]: 1}
        total = sum(LANE_PARTS[lane] for lane in lanes)
        if count >= total:
            return {lane: count // total * LANE_PARTS[lane] for lane in lanes}
        for lane in lanes:
            self._credit[lane] += LANE_PARTS[lane]
        chosen = max(lanes, key=self._credit.__getitem__)
        self._credit[chosen] -= total
        return {chosen: 1}


class _Room:
    """How many more slots each scope may be given; measured for those only whose turn may come."""

    def __init__(self, measure: Callable[[ScopeId], int]) -> None:
        self._measure = measure
        self._left: dict[ScopeId, int] = {}

    def of(self, scope_id: ScopeId) -> int:
        """How many are left for the scope."""
        left = self._left.get(scope_id)
        if left is None:
            left = self._left[scope_id] = self._measure(scope_id)
        return left

    def take(self, scope_id: ScopeId, count: int) -> None:
        """Have ``count`` fewer left."""
        self._left[scope_id] = self.of(scope_id) - count


def _fill(lane: Lane, queue: deque[ScopeId], part: int, room: _Room, quotas: dict[LaneKey, int]) -> int:
    """How many of ``part`` slots were dealt to the lane of the scopes in ``queue``, equally as far as there is room."""
    left = part
    while left and queue:
        each = max(1, left // len(queue))
        for _ in range(min(left, len(queue))):
            scope_id = queue.popleft()
            given = min(each, room.of(scope_id), left)
            if given > 0:
                room.take(scope_id, given)
                quotas[scope_id, lane] = quotas.pop((scope_id, lane), 0) + given
                left -= given
            if room.of(scope_id) > 0:
                queue.append(scope_id)
    return part - left
