"""A provider that is slow, silent, refusing and deadly, as the dice say; and good once it is told to be."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta

from shared.content import EmailContent
from shared.delivery.provider import Held, Parcel
from shared.tenant import ScopedTenant
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict
from tests.prove.oracle import Oracle

POISON = "poison"
"""The subject of a message that no worker survives."""

Behaviour = Callable[[Parcel], Awaitable[Verdict | Held]]


class Died(BaseException):
    """The worker is gone, and so is all it had in its hands."""


class TroubledProvider:
    """One worker's way out; ``calm`` ends its troubles, poison apart."""

    name = "troubled"

    def __init__(self, rng: random.Random, oracle: Oracle, lease: timedelta) -> None:
        self.calm = False
        self._rng = rng
        self._oracle = oracle
        self._lease_seconds = lease.total_seconds()
        self._odds: dict[Behaviour, int] = {
            self._deliver: 50,
            self._deliver_late: 8,
            self._reject: 7,
            self._reject_late: 6,
            self._defer: 12,
            self._stay_silent: 5,
            self._take_and_stay_silent: 5,
            self._block: 2,
            self._hold: 2,
            self._break: 1,
            self._die_before: 1,
            self._die_after: 1,
        }

    async def send(self, parcel: Parcel) -> Verdict | Held:
        """What becomes of one attempt."""
        poisoned = isinstance(parcel.content, EmailContent) and parcel.content.subject == POISON
        if poisoned:
            return await self._rng.choice((self._die_before, self._die_after))(parcel)
        if self.calm:
            return await self._deliver(parcel)
        (behaviour,) = self._rng.choices(list(self._odds), list(self._odds.values()))
        return await behaviour(parcel)

    def circuits(self, tenant: ScopedTenant) -> frozenset[str]:
        """None: what is fuzzed here is the fence, not the gate."""
        return frozenset()

    async def learn(self, tenant: ScopedTenant) -> None:
        """There is nothing to learn."""

    async def close(self) -> None:
        """Nothing to give back."""

    def _take(self, parcel: Parcel) -> None:
        parcel.progress.handed_over = True
        self._oracle.took(parcel.job_id, flagged=parcel.possible_duplicate)

    async def _past_the_lease(self) -> None:
        await asyncio.sleep(self._lease_seconds * self._rng.uniform(1.0, 3.0))

    async def _deliver(self, parcel: Parcel) -> Verdict:
        self._take(parcel)
        return Delivered("taken")

    async def _deliver_late(self, parcel: Parcel) -> Verdict:
        self._take(parcel)
        await self._past_the_lease()
        return Delivered("taken")

    async def _reject(self, _parcel: Parcel) -> Verdict:
        return Rejected()

    async def _reject_late(self, _parcel: Parcel) -> Verdict:
        await self._past_the_lease()
        return Rejected()

    async def _defer(self, _parcel: Parcel) -> Verdict:
        return Deferred()

    async def _stay_silent(self, _parcel: Parcel) -> Verdict:
        return NoVerdict(handed_over=False)

    async def _take_and_stay_silent(self, parcel: Parcel) -> Verdict:
        self._take(parcel)
        return NoVerdict(handed_over=True)

    async def _block(self, _parcel: Parcel) -> Verdict:
        return SenderBlocked("relay")

    async def _hold(self, _parcel: Parcel) -> Held:
        return Held(timedelta(seconds=self._lease_seconds / 5))

    async def _break(self, _parcel: Parcel) -> Verdict:
        raise RuntimeError("no such luck")

    async def _die_before(self, _parcel: Parcel) -> Verdict:
        raise Died

    async def _die_after(self, parcel: Parcel) -> Verdict:
        self._take(parcel)
        raise Died
