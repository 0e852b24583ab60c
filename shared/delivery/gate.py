"""The gate every job passes: pauses that are stored, and breakers that this process keeps in memory."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import timedelta
from typing import assert_never

from shared.channel import Channel
from shared.delivery.breaker import ANY
from shared.delivery.breakers import Breakers
from shared.delivery.pauses import Pauses
from shared.delivery.provider import Held
from shared.delivery.witnesses import Recipient
from shared.ids import TenantId
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict

SHORTEST_HOLD = timedelta(seconds=1)
LONGEST_HOLD = timedelta(seconds=60)
"""What is mended earlier than expected must not wait much longer for it."""
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
        self._breakers = Breakers(probe_lasts.total_seconds(), clock)
        self._offered: set[str] = set()

    def begin_round(self) -> None:
        """A new claim is put together: each probe may be offered once more."""
        self._offered.clear()

    def room(self, circuits: frozenset[str], tenant_id: TenantId) -> int:
        """How many jobs of the tenant may be claimed, when each of them takes one of ``circuits``."""
        return max((self._room_on(circuit, tenant_id) for circuit in circuits), default=ANY)

    def held(self, circuit: str, tenant_id: TenantId, recipient: Recipient | None = None) -> Held | None:
        """None when a job of the tenant may go through ``circuit`` now: it may be the one that tries it.

        ``recipient``: whose job it is, where recipients choose what they are reached by.
        """
        for pause in self.pauses.binding(circuit, tenant_id, recipient):
            # Asked for here as well: whoever takes circuits that nobody can foresee is never offered room.
            if not self.pauses.may_probe(pause, recipient):
                return Held(_bounded(pause.left or SHORTEST_HOLD))
        wait = self._breakers.admit(circuit, recipient)
        return Held(_bounded(timedelta(seconds=wait))) if wait > 0 else None

    async def told(
        self, circuit: str, tenant_id: TenantId, verdict: Verdict, unanswered: int, recipient: Recipient | None = None
    ) -> Verdict:
        """``verdict`` as it stands beside what others meet on ``circuit``; ``unanswered`` silences came before it.

        It is learned from, and what others must know of it is stored; where it was for a ``recipient``, by the rule in
        shared/delivery/witnesses.py. A service that refuses one message again while it takes others has nothing
        against us: that message is deferred, and counts.
        """
        with contextlib.suppress(asyncio.CancelledError):
            # Cut off while Postgres took its time: what others should know the next job will find out, but nobody can
            # ask the provider again what became of this one.
            await self._note(circuit, tenant_id, verdict, recipient)
        if (
            isinstance(verdict, NoVerdict)
            and verdict.refused
            and not verdict.handed_over
            and unanswered > 0
            and self._breakers.got_through_within(circuit, self._forgiven_for)
        ):
            return Deferred(verdict.retry_after, verdict.code, verdict.error)
        return verdict

    def is_paused(self, tenant_id: TenantId, channel: Channel) -> bool:
        """Whether an operator has paused the tenant on ``channel``."""
        return self.pauses.is_paused(tenant_id, channel)

    async def _note(self, circuit: str, tenant_id: TenantId, verdict: Verdict, recipient: Recipient | None) -> None:
        match verdict:
            case Delivered() | Rejected() | Deferred():
                # What a recipient made up is refused by the front door of a service that is down, too.
                taken = isinstance(verdict, Delivered)
                self._breakers.note_answer(circuit, recipient, through=taken or recipient is None)
                if taken:
                    self.pauses.note_taken(circuit, tenant_id)
                if proven := [one for one in self.pauses.on_circuit(circuit, tenant_id) if one.over]:
                    await self.pauses.lift(proven)
            case NoVerdict():
                self._breakers.note_failure(circuit, recipient, verdict.code)
            case SenderBlocked():
                self._breakers.note_answer(circuit, recipient, through=False)
                await self.pauses.block(circuit, tenant_id, verdict, recipient)
            case _:
                assert_never(verdict)

    def _room_on(self, circuit: str, tenant_id: TenantId) -> int:
        over = [pause for pause in self.pauses.on_circuit(circuit, tenant_id) if pause.holds_all]
        if not all(pause.over and self.pauses.has_probe(pause) for pause in over):
            return 0
        room = self._breakers.room(circuit)
        if over:
            room = min(room, 1)
        if room != 1:
            return room
        if circuit in self._offered:
            return 0
        self._offered.add(circuit)
        return 1


def _bounded(wait: timedelta) -> timedelta:
    return min(max(wait, SHORTEST_HOLD), LONGEST_HOLD)
