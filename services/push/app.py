"""The push service as a list of parts: one claim loop over Firebase."""

import asyncio

from services.push.accounts import ServiceAccounts
from services.push.fcm import FcmSender, load
from services.push.provider import OF_THE_ATTEMPT, PushProvider
from services.push.settings import PushSettings
from shared.broker.bus import Bus
from shared.channel import Channel
from shared.delivery.worker import KnownTenants, Worker, WorkerSettings
from shared.lifecycle import Heart, Part
from shared.store.database import Database

CONNECTIONS_PER_SLOT = 2
"""Most recipients have one phone or two; who has more waits in line for a moment."""


def build(
    settings: PushSettings,
    database: Database,
    bus: Bus,
    tenants: KnownTenants,
    accounts: ServiceAccounts,
    *,
    worker_name: str,
    hearts: dict[str, Heart],
) -> list[Part]:
    """The claim loop, named ``worker_name`` in ``outgoing.claimed_by``; its heartbeat is added to ``hearts``."""
    fcm = FcmSender(
        connections=settings.slots * CONNECTIONS_PER_SLOT,
        within=settings.attempt_timeout * OF_THE_ATTEMPT,
        base_url=settings.fcm_base_url,
    )
    provider = PushProvider(database, accounts, fcm, attempt_timeout=settings.attempt_timeout)
    worker = Worker(
        WorkerSettings.of(Channel.PUSH, worker_name, settings),
        database,
        tenants,
        provider,
    )
    bus.on_wake(Channel.PUSH, worker.bell.ring)
    hearts["push"] = worker.heart

    async def run(stop: asyncio.Event) -> None:
        await asyncio.to_thread(load)
        await worker.run(stop)

    return [Part("push", run)]
