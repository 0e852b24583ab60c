"""The claim loop of a channel that talks to a provider: claim, attempt, settle, for ever."""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Protocol

from shared.channel import Channel
from shared.delivery.attempt import Conditions, attempt
from shared.delivery.breaker import ANY
from shared.delivery.gate import Gate
from shared.delivery.pauses import Pauses
from shared.delivery.provider import Provider
from shared.delivery.rounds import Rounds
from shared.delivery.settler import Settler
from shared.delivery.wake import Doorbell, jittered
from shared.errors import StoreUnavailable
from shared.ids import ScopeId, TenantId
from shared.lifecycle import Heart
from shared.logs import get_logger
from shared.retry import UNANSWERED_STEP
from shared.store.claim import Claim, claim, claim_suspect
from shared.store.database import Database
from shared.tenant import Mode, ScopedTenant

log = get_logger()

OF_THE_STEP = 0.75
"""A provider's pause is shorter than the wait of the job that met it: others try first, in case it is the job."""
LEARNT_A_ROUND = 10
FINISH_SECONDS = 5.0
"""How long an attempt may go on after the stop; then it is cut off and says how far it came."""


class ChannelSettings(Protocol):
    """What the settings of every channel service have in common."""

    @property
    def slots(self) -> int:
        """Sends at once."""

    @property
    def lease(self) -> timedelta:
        """How long a claim lasts."""

    @property
    def attempt_timeout(self) -> timedelta:
        """The hard limit of one send."""

    @property
    def lease_margin(self) -> timedelta:
        """The end of a lease in which no send may run any more."""

    @property
    def poll_busy(self) -> timedelta:
        """The longest wait between two looks at the table while there is work."""

    @property
    def poll_idle(self) -> timedelta:
        """The same while there is none."""

    @property
    def unanswered_step(self) -> timedelta:
        """The first wait after a silence."""


class KnownTenants(Protocol):
    """Who a scope's messages are from: read anew at every attempt."""

    def of_scope(self, scope_id: ScopeId) -> ScopedTenant | None:
        """The tenant's half as its newest file describes it, or None when it is not known (yet)."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How one worker claims: ``slots`` sends at once, each under ``attempt_timeout`` within a ``lease``.

    A send starts only while ``lease`` − ``attempt_timeout`` − ``margin`` has not passed since the claim.
    """

    channel: Channel
    name: str
    slots: int
    lease: timedelta
    attempt_timeout: timedelta
    margin: timedelta
    poll_busy: timedelta
    poll_idle: timedelta
    unanswered_step: timedelta = UNANSWERED_STEP

    @classmethod
    def of(cls, channel: Channel, name: str, settings: "ChannelSettings") -> "WorkerSettings":
        """The part of a channel service's settings that its worker goes by."""
        return cls(
            channel,
            name,
            settings.slots,
            settings.lease,
            settings.attempt_timeout,
            settings.lease_margin,
            settings.poll_busy,
            settings.poll_idle,
            settings.unanswered_step,
        )


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
        self._in_flight: set[asyncio.Task[None]] = set()
        self._busy: Counter[ScopeId] = Counter()
        self._blocked: dict[TenantId, ScopedTenant] = {}
        self._suspect: Claim | None = None
        self._sending_seconds = (settings.lease - settings.attempt_timeout - settings.margin).total_seconds()
        probe_lasts = settings.attempt_timeout + settings.margin
        self._pauses = Pauses(database, settings.channel, settings.unanswered_step * OF_THE_STEP, probe_lasts)
        self._gate = Gate(self._pauses, settings.unanswered_step, probe_lasts)
        self._conditions = Conditions(
            provider,
            self._gate,
            tenants.of_scope,
            settings.attempt_timeout,
            settings.unanswered_step,
            random.Random(),  # noqa: S311 - spreads retries, guards nothing
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop`` is set, then finish or cut off what is in flight, write it down and return."""
        self._settler = Settler(self._database, self._settings.channel, self._settings.lease)
        settling = asyncio.create_task(self._settler.run())
        nudging = asyncio.create_task(self._nudge_at(stop))
        try:
            while not stop.is_set():
                self.heart.beat()
                await self._round(stop)
        finally:
            await self._finish_in_flight()
            self._settler.close()
            await settling
            nudging.cancel()
            await self._provider.close()

    async def _round(self, stop: asyncio.Event) -> None:
        if len(self._in_flight) >= self._settings.slots or self._settler.is_behind:
            await self.bell.wait(self._settings.poll_busy.total_seconds())
            return
        try:
            await self._pauses.look()
            await self._rounds.look(self.bell, self._database)
            await self._start_suspect(stop)
            await self._start_due(stop)
        except StoreUnavailable as exc:
            log.debug("delivery.claim_waits", channel=self._settings.channel, error=str(exc))
            await self.bell.wait(jittered(self._settings.poll_busy.total_seconds()))
            return
        await self._learn()
        if not self._rounds:
            await self.bell.wait(jittered(self._poll_seconds()))

    async def _start_due(self, stop: asyncio.Event) -> None:
        """Claim as many due jobs as there are free slots, and start them."""
        self._gate.begin_round()
        shares = self._rounds.shares(self._settings.slots - len(self._in_flight), self._busy, self._room)
        if not shares:
            return
        # Taken before the claim is sent: our clock then starts earlier than the lease, never later.
        began, settings = time.monotonic(), self._settings
        async with self._database.hot() as pg:
            taken = await claim(pg, settings.channel, shares, settings.lease, settings.name)
        self._rounds.note_taken(shares, [(one.scope_id, one.lane) for one in taken])
        for one in taken:
            self._start(one, began + self._sending_seconds, stop)

    async def _start_suspect(self, stop: asyncio.Event) -> None:
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
            self._start(taken, began + self._sending_seconds, stop)

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

    def _start(self, one: Claim, deadline: float, stop: asyncio.Event) -> None:
        task = asyncio.create_task(self._attempt(one, deadline, stop))
        self._in_flight.add(task)
        self._busy[one.scope_id] += 1
        task.add_done_callback(partial(self._ended, one))

    async def _attempt(self, one: Claim, deadline: float, stop: asyncio.Event) -> None:
        self._settler.submit(await attempt(one, deadline, stop, self._conditions))

    def _ended(self, one: Claim, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        self._busy[one.scope_id] -= 1
        if not self._busy[one.scope_id]:
            del self._busy[one.scope_id]
        if one is self._suspect:
            self._suspect = None
        if not task.cancelled() and task.exception() is not None:
            # The job is not lost: its lease runs out and it is claimed again.
            log.error("delivery.attempt_broke", channel=self._settings.channel, exc_info=task.exception())
        if self._rounds.has_waiting:
            self.bell.nudge()

    @property
    def idle(self) -> bool:
        """Whether the loop has looked at the table and waits for a ring or the poll."""
        return self.bell.is_awaited and not self._in_flight

    def _poll_seconds(self) -> float:
        busy = bool(self._in_flight) or self._rounds.has_waiting
        return (self._settings.poll_busy if busy else self._settings.poll_idle).total_seconds()

    async def _nudge_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.bell.nudge()

    async def _finish_in_flight(self) -> None:
        if not self._in_flight:
            return
        _, late = await asyncio.wait(self._in_flight, timeout=FINISH_SECONDS)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=1.0)
