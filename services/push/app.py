"""The push service as a list of parts: one claim loop over Firebase and the browsers' push services."""

import asyncio

from services.push.accounts import ServiceAccounts
from services.push.fcm import FcmSender, load
from services.push.provider import OF_THE_ATTEMPT, PushProvider
from services.push.roads import Roads
from services.push.settings import PushSettings
from services.push.signers import VapidKeys
from services.push.webpush import WebPushSender
from shared.broker.bus import Bus
from shared.channel import Channel
from shared.delivery.pace import WorkerSettings
from shared.delivery.worker import KnownTenants, Worker
from shared.endpoint import EndpointRules
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
    vapid_keys: VapidKeys,
    rules: EndpointRules,
    *,
    worker_name: str,
    hearts: dict[str, Heart],
) -> list[Part]:
    """The claim loop, named ``worker_name`` in ``outgoing.claimed_by``; its heartbeat is added to ``hearts``.

    ``rules`` say which endpoints of browsers are posted to.
    """
    connections, within = settings.slots * CONNECTIONS_PER_SLOT, settings.attempt_timeout * OF_THE_ATTEMPT
    fcm = FcmSender(connections=connections, within=within, base_url=settings.fcm_base_url)
    webpush = WebPushSender(rules, connections=connections, within=within)
    roads = Roads(accounts, fcm, vapid_keys, webpush)
    provider = PushProvider(database, roads, attempt_timeout=settings.attempt_timeout)
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
