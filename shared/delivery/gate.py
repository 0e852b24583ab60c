"""The gate every job passes: pauses that are stored, and breakers that this process keeps in memory."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import timedelta
from typing import assert_never

from shared.channel import Channel
from shared.delivery.breaker import ANY, Breaker
from shared.delivery.pauses import Pauses
from shared.delivery.provider import Held
from shared.ids import TenantId
from shared.logs import get_logger
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict

log = get_logger()

SHORTEST_HOLD = timedelta(seconds=1)
LONGEST_HOLD = timedelta(seconds=60)
"""What is mended earlier than expected must not wait much longer for it."""
MOST_CIRCUITS = 4_096
FORGIVEN_SHARE = 0.75
"""A refused job is back after a step, spread by a fifth: what got through before the refusal must be older than this
share of a step by then."""


class Gate:
    """What may go where, for one worker. A *circuit* names a relay, an FCM project or a push host."""

    def __init__(
        self,
        pauses: Pauses,
        step: timedelta,
        probe_lasts: timedelta,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``step``: the first wait after a silence. ``probe_lasts``: the longest that a probe may take."""
        self.pauses = pauses
        self._forgiven_for = step.total_seconds() * FORGIVEN_SHARE
        self._probe_seconds = probe_lasts.total_seconds()
        self._clock = clock
        self._breakers: dict[str, Breaker] = {}
        self._offered: set[str] = set()

    def begin_round(self) -> None:
        """A new claim is put together: each probe may be offered once more."""
        self._offered.clear()

    def room(self, circuits: frozenset[str], tenant_id: TenantId) -> int:
        """How many jobs of the tenant may be claimed, when each of them takes one of ``circuits``."""
        return max((self._room_on(circuit, tenant_id) for circuit in circuits), default=ANY)

    def held(self, circuit: str, tenant_id: TenantId) -> Held | None:
        """None when a job of the tenant may go through ``circuit`` now: it may be the one that tries it."""
        for pause in self.pauses.on_circuit(circuit, tenant_id):
            # Asked for here as well: whoever takes circuits that nobody can foresee is never offered room.
            if not (pause.over and self.pauses.has_probe(pause) and self.pauses.use_probe(pause)):
                return Held(_bounded(pause.left or SHORTEST_HOLD))
        breaker = self._breakers.get(circuit)
        wait = 0.0 if breaker is None else breaker.admit()
        return Held(_bounded(timedelta(seconds=wait))) if wait > 0 else None

    async def told(self, circuit: str, tenant_id: TenantId, verdict: Verdict, unanswered: int) -> Verdict:
        """``verdict`` as it stands beside what others meet on ``circuit``; ``unanswered`` silences came before it.

        It is learned from, and what others must know of it is stored. A service that refuses one message again while
        it takes others has nothing against us: that message is deferred, and counts.
        """
        with contextlib.suppress(asyncio.CancelledError):
            # Cut off while Postgres took its time: what others should know the next job will find out, but nobody can
            # ask the provider again what became of this one.
            await self._note(circuit, tenant_id, verdict)
        if isinstance(verdict, NoVerdict) and verdict.refused and not verdict.handed_over and unanswered > 0:
            breaker = self._breakers.get(circuit)
            if breaker is not None and breaker.got_through_within(self._forgiven_for):
                return Deferred(verdict.retry_after, verdict.code, verdict.error)
        return verdict

    def is_paused(self, tenant_id: TenantId, channel: Channel) -> bool:
        """Whether an operator has paused the tenant on ``channel``."""
        return self.pauses.is_paused(tenant_id, channel)

    async def _note(self, circuit: str, tenant_id: TenantId, verdict: Verdict) -> None:
        match verdict:
            case Delivered() | Rejected() | Deferred():
                self._breaker(circuit).note_answer(through=True)
                if proven := [one for one in self.pauses.on_circuit(circuit, tenant_id) if one.over]:
                    await self.pauses.lift(proven)
            case NoVerdict():
                if self._breaker(circuit).note_failure():
                    log.warning("delivery.breaker_opened", circuit=circuit, code=verdict.code)
            case SenderBlocked():
                self._breaker(circuit).note_answer(through=False)
                await self.pauses.block(circuit, tenant_id, verdict)
            case _:
                assert_never(verdict)

    def _room_on(self, circuit: str, tenant_id: TenantId) -> int:
        over = self.pauses.on_circuit(circuit, tenant_id)
        if not all(pause.over and self.pauses.has_probe(pause) for pause in over):
            return 0
        breaker = self._breakers.get(circuit)
        room = ANY if breaker is None else breaker.room()
        if over:
            room = min(room, 1)
        if room != 1:
            return room
        if circuit in self._offered:
            return 0
        self._offered.add(circuit)
        return 1

    def _breaker(self, circuit: str) -> Breaker:
        found = self._breakers.get(circuit)
        if found is None:
            if len(self._breakers) >= MOST_CIRCUITS:
                # The oldest: a push host that nobody has subscribed through for long.
                del self._breakers[next(iter(self._breakers))]
            found = self._breakers[circuit] = Breaker(self._probe_seconds, self._clock)
        return found


def _bounded(wait: timedelta) -> timedelta:
    return min(max(wait, SHORTEST_HOLD), LONGEST_HOLD)
