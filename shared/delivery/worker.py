"""The claim loop of a channel that talks to a provider: claim, attempt, settle, for ever."""

import asyncio
import random
import time
from collections import Counter
from typing import Protocol

from shared.delivery.attempt import Conditions, attempt
from shared.delivery.breaker import ANY
from shared.delivery.gate import Gate
from shared.delivery.limit import TimeLimit
from shared.delivery.pace import WorkerSettings
from shared.delivery.pauses import Pauses
from shared.delivery.provider import Provider
from shared.delivery.rounds import Rounds
from shared.delivery.settler import Settler
from shared.delivery.slots import Slots
from shared.delivery.wake import Doorbell, jittered
from shared.errors import StoreUnavailable
from shared.ids import ScopeId, TenantId
from shared.lifecycle import Heart
from shared.logs import get_logger
from shared.store.claim import Claim, claim, claim_suspect
from shared.store.database import Database
from shared.tenant import Mode, ScopedTenant

log = get_logger()

OF_THE_STEP = 0.75
"""A provider's pause is shorter than the wait of the job that met it: others try first, in case it is the job."""
LEARNT_A_ROUND = 10
SHORTEST_WAIT_SECONDS = 0.05
FINISH_SECONDS = 5.0
"""How long an attempt may go on after the stop; then it is cut off and says how far it came."""
CUT_OFF_SECONDS = 1.0
"""What attempts get to notice that they were cut off."""


class KnownTenants(Protocol):
    """Who a scope's messages are from: read anew at every attempt."""

    def of_scope(self, scope_id: ScopeId) -> ScopedTenant | None:
        """The tenant's half as its newest file describes it, or None when it is not known (yet)."""


class Worker:
    """One claim loop. ``bell`` is rung by the bus; a poll is the floor when no ring comes through."""

    def __init__(self, settings: WorkerSettings, database: Database, tenants: KnownTenants, provider: Provider) -> None:
        self.bell = Doorbell()
        self.heart = Heart()
        self._settings = settings
        self._database = database
        self._provider = provider
        self._tenants = tenants
        self._rounds = Rounds(settings.channel, settings.slots)
        self._settler = Settler(database, settings.channel, settings.lease)
        self._slots = Slots(settings.slots, self._attempt)
        self._busy: Counter[ScopeId] = Counter()
        self._blocked: dict[TenantId, ScopedTenant] = {}
        self._suspect: Claim | None = None
        self._stop = asyncio.Event()
        self._sending_seconds = (settings.lease - settings.attempt_timeout - settings.margin).total_seconds()
        probe_lasts = settings.attempt_timeout + settings.margin
        self._pauses = Pauses(database, settings.channel, settings.unanswered_step * OF_THE_STEP, probe_lasts)
        self._gate = Gate(self._pauses, settings.unanswered_step, probe_lasts)
        self._conditions = Conditions(
            provider,
            self._gate,
            tenants.of_scope,
            TimeLimit(settings.attempt_timeout.total_seconds()),
            settings.unanswered_step,
            random.Random(),  # noqa: S311 - spreads retries, guards nothing
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set, then finish or cut off what is in flight, write it down and return."""
        self._settler = Settler(self._database, self._settings.channel, self._settings.lease)
        self._slots = Slots(self._settings.slots, self._attempt)
        self._stop = stop
        settling = asyncio.create_task(self._settler.run())
        nudging = asyncio.create_task(self._nudge_at(stop))
        try:
            # Without its writer a worker would claim no more, and look alive: better it starts anew.
            while not stop.is_set() and not settling.done():
                self.heart.beat()
                await self._round()
        finally:
            if not await self._slots.until_empty(FINISH_SECONDS):
                self._slots.cut_off()
                await self._slots.until_empty(CUT_OFF_SECONDS)
            await self._slots.close()
            self._settler.close()
            await settling
            nudging.cancel()
            await self._provider.close()

    async def _round(self) -> None:
        if self._slots.free_count <= 0 or self._settler.is_behind:
            await self.bell.wait(self._settings.poll_busy.total_seconds())
            return
        try:
            await self._pauses.look()
            await self._rounds.look(self.bell, self._database)
            await self._start_suspect()
            await self._start_due()
        except StoreUnavailable as exc:
            log.debug("delivery.claim_waits", channel=self._settings.channel, error=str(exc))
            await self.bell.wait(jittered(self._settings.poll_busy.total_seconds()))
            return
        await self._learn()
        if not self._rounds:
            await self.bell.wait(self._poll_seconds())

    async def _start_due(self) -> None:
        """Claim as many due jobs as there are free slots, and start them."""
        self._gate.begin_round()
        shares = self._rounds.shares(self._slots.free_count, self._busy, self._room)
        if not shares:
            return
        # Taken before the claim is sent: our clock then starts earlier than the lease, never later.
        began, settings = time.monotonic(), self._settings
        async with self._database.hot() as pg:
            taken = await claim(pg, settings.channel, shares, settings.lease, settings.name)
        self._rounds.note_taken(shares, [(one.scope_id, one.lane) for one in taken])
        for one in taken:
            self._start(one, began + self._sending_seconds)

    async def _start_suspect(self) -> None:
        """Claim and start a job that may have killed two workers, unless we hold one already."""
        heads = [] if self._suspect is not None else self._rounds.suspected(self._room)
        if not heads:
            return
        began, settings = time.monotonic(), self._settings
        async with self._database.hot() as pg:
            taken = await claim_suspect(pg, settings.channel, heads, settings.lease, settings.name)
        self._rounds.note_suspect(heads, taken)
        if taken is not None:
            self._suspect = taken
            self._start(taken, began + self._sending_seconds)

    def _room(self, scope_id: ScopeId) -> int:
        """How many jobs of the scope may be claimed now."""
        tenant = self._tenants.of_scope(scope_id)
        if tenant is None:
            return ANY
        room = ANY
        if self._pauses.is_paused(tenant.tenant_id):
            room = 0
        elif tenant.mode is Mode.LIVE:
            room = self._gate.room(self._provider.circuits(tenant), tenant.tenant_id)
            if room < ANY:
                self._blocked[tenant.tenant_id] = tenant
        return room

    async def _learn(self) -> None:
        """See whether tenants whose way is blocked have another by now; a few at a time, for it may ask Postgres."""
        for _ in range(min(len(self._blocked), LEARNT_A_ROUND)):
            await self._provider.learn(self._blocked.popitem()[1])

    def _start(self, one: Claim, deadline: float) -> None:
        self._busy[one.scope_id] += 1
        self._slots.give((one, deadline))

    async def _attempt(self, claimed: tuple[Claim, float]) -> None:
        one, deadline = claimed
        try:
            self._settler.submit(await attempt(one, deadline, self._stop, self._conditions))
        finally:
            self._note_end(one)

    def _note_end(self, one: Claim) -> None:
        self._busy[one.scope_id] -= 1
        if not self._busy[one.scope_id]:
            del self._busy[one.scope_id]
        if one is self._suspect:
            self._suspect = None
        if self._rounds.has_waiting:
            self.bell.nudge()

    @property
    def idle(self) -> bool:
        """Whether the loop has looked at the table and waits for a ring or the poll."""
        return self.bell.is_awaited and not self._slots.taken_count

    def _poll_seconds(self) -> float:
        busy = self._slots.taken_count > 0 or self._rounds.has_waiting
        seconds = jittered((self._settings.poll_busy if busy else self._settings.poll_idle).total_seconds())
        # What another process holds is free when its lease is over, and nobody rings for that.
        look_seconds = self._rounds.next_look_seconds
        return seconds if look_seconds is None else min(seconds, max(look_seconds, SHORTEST_WAIT_SECONDS))

    async def _nudge_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.bell.nudge()
