"""Dealing free slots to the lanes that wait: every scope in turn, lower lanes first, nobody left out. Pure."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from shared.ids import ScopeId
from shared.job import Lane
from shared.store.claim import LaneKey

NOBODY: Mapping[ScopeId, int] = MappingProxyType({})
LANE_PARTS = {Lane.TRANSACTIONAL: 14, Lane.TRANSACTIONAL_RETRY: 3, Lane.BULK: 2, Lane.BULK_RETRY: 1}
"""Of twenty slots dealt while every lane waits, how many go to each."""


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
        room = self._room(busy, most_of)
        quotas: dict[LaneKey, int] = {}
        self._draw(room, free - self._kept, quotas)
        holders = {scope_id for scope_id, _ in quotas}
        newcomers = {s: min(left, 1) for s, left in room.items() if not busy.get(s) and s not in holders}
        self._draw(newcomers, free - sum(quotas.values()), quotas)
        self._end_turns(quotas)
        return quotas

    def _room(self, busy: Mapping[ScopeId, int], most_of: Callable[[ScopeId], int]) -> dict[ScopeId, int]:
        scope_ids = {scope_id for scopes in self._waiting.values() for scope_id in scopes}
        most = {scope_id: limit for scope_id in scope_ids if (limit := most_of(scope_id)) > 0}
        ceiling = max(1, self._slots // 2) if len(most) > 1 else self._slots
        return {scope_id: min(limit, ceiling - busy.get(scope_id, 0)) for scope_id, limit in most.items()}

    def _draw(self, room: dict[ScopeId, int], count: int, quotas: dict[LaneKey, int]) -> None:
        """Deal up to ``count`` slots one by one as far as ``room`` goes; who got the last is last in ``quotas``."""
        queues = {
            lane: deque(scope_id for scope_id in scopes if room.get(scope_id, 0) > 0)
            for lane, scopes in self._waiting.items()
        }
        for _ in range(count):
            lane = self._next_lane(queues, room)
            if lane is None:
                return
            scope_id = queues[lane].popleft()
            queues[lane].append(scope_id)
            room[scope_id] -= 1
            quotas[scope_id, lane] = quotas.pop((scope_id, lane), 0) + 1

    def _next_lane(self, queues: Mapping[Lane, deque[ScopeId]], room: Mapping[ScopeId, int]) -> Lane | None:
        for queue in queues.values():
            while queue and room[queue[0]] <= 0:
                queue.popleft()
        lanes = [lane for lane, queue in queues.items() if queue]
        if not lanes:
            return None
        # Who waited longest for its part is next: smooth weighted round robin. Credits outlive the deal, so that a
        # lane's part is kept however few slots a deal has.
        for lane in lanes:
            self._credit[lane] += LANE_PARTS[lane]
        chosen = max(lanes, key=self._credit.__getitem__)
        self._credit[chosen] -= sum(LANE_PARTS[lane] for lane in lanes)
        return chosen

    def _end_turns(self, served: Iterable[LaneKey]) -> None:
        for key in served:
            self.remove(key)
            self.add(key)
