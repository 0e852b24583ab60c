"""A provider that does as the test says: the engine's tests drive the worker with it, channels have real peers."""

import asyncio
from collections.abc import Awaitable, Callable

from shared.delivery.provider import Held, Parcel
from shared.tenant import ScopedTenant
from shared.verdict import Delivered, Verdict

Behaviour = Callable[[Parcel], Awaitable[Verdict]]


async def deliver(_parcel: Parcel) -> Verdict:
    """Taken at once."""
    return Delivered()


class ScriptedProvider:
    """Remembers every parcel it was given and answers as ``behaviour`` does."""

    name = "scripted"

    def __init__(self, behaviour: Behaviour = deliver) -> None:
        self.behaviour = behaviour
        self.sent: list[Parcel] = []
        self.at_once = 0
        self.most_at_once = 0

    async def send(self, parcel: Parcel) -> Verdict | Held:
        """One attempt, remembered."""
        self.sent.append(parcel)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self.behaviour(parcel)
        finally:
            self.at_once -= 1

    def circuits(self, tenant: ScopedTenant) -> frozenset[str]:
        """None that the engine should know of."""
        return frozenset()

    async def learn(self, tenant: ScopedTenant) -> None:
        """There is nothing to learn."""

    async def close(self) -> None:
        """Nothing to give back."""


class CircuitProvider(ScriptedProvider):
    """A scripted provider whose tenants' jobs all go through ``circuit``, as far as the gate lets them."""

    def __init__(self, behaviour: Behaviour = deliver, circuit: str = "relay-1") -> None:
        super().__init__(behaviour)
        self.circuit = circuit

    async def send(self, parcel: Parcel) -> Verdict | Held:
        """One attempt, remembered unless it is held."""
        return parcel.held_on(self.circuit) or await super().send(parcel)

    def circuits(self, tenant: ScopedTenant) -> frozenset[str]:
        """The one circuit."""
        return frozenset({self.circuit})


async def never(parcel: Parcel) -> Verdict:
    """Never answers, before the hand-over."""
    await asyncio.Event().wait()
    return await deliver(parcel)


async def never_after_handover(parcel: Parcel) -> Verdict:
    """Never answers, after the hand-over."""
    parcel.progress.handed_over = True
    return await never(parcel)
