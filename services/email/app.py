"""The email service as a list of parts: one claim loop over the tenants' relays."""

from services.email.provider import EmailProvider
from services.email.relays import Relays
from services.email.settings import EmailSettings
from shared.broker.bus import Bus
from shared.channel import Channel
from shared.delivery.worker import KnownTenants, Worker, WorkerSettings
from shared.lifecycle import Heart, Part
from shared.store.database import Database


def build(
    settings: EmailSettings,
    database: Database,
    bus: Bus,
    tenants: KnownTenants,
    relays: Relays,
    *,
    worker_name: str,
    hearts: dict[str, Heart],
) -> list[Part]:
    """The claim loop, named ``worker_name`` in ``outgoing.claimed_by``; its heartbeat is added to ``hearts``."""
    provider = EmailProvider(relays, pool_size=settings.slots, attempt_timeout=settings.attempt_timeout)
    worker = Worker(
        WorkerSettings.of(Channel.EMAIL, worker_name, settings),
        database,
        tenants,
        provider,
    )
    bus.on_wake(Channel.EMAIL, worker.bell.ring)
    hearts["email"] = worker.heart
    return [Part("email", worker.run)]
