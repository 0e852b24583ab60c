"""The email service as a list of parts: one claim loop over the tenants' relays, and what takes in what comes back."""

from services.email.listener import Listener
from services.email.provider import LONGEST_LOOK, OF_THE_STORE, EmailProvider
from services.email.receiving import Receiving
from services.email.relays import Relays
from services.email.returnpath import PURPOSE, ReturnPaths
from services.email.settings import EmailSettings
from services.email.suppressed import SuppressionList
from services.email.unsubscribe import PURPOSE as UNSUBSCRIBING
from services.email.unsubscribe import Links
from services.email.unsubscribe_form import unsubscribe_routes
from services.email.webhook import bounce_route
from shared.broker.bus import Bus
from shared.channel import Channel
from shared.delivery.pace import WorkerSettings
from shared.delivery.worker import KnownTenants, Worker
from shared.lifecycle import Heart, Part
from shared.sealing import Sealer
from shared.store.database import Database
from shared.web.app import make_app
from shared.web.server import http_part


def build(
    settings: EmailSettings,
    database: Database,
    bus: Bus,
    tenants: KnownTenants,
    relays: Relays,
    sealer: Sealer,
    *,
    host: str,
    worker_name: str,
    hearts: dict[str, Heart],
) -> list[Part]:
    """The claim loop, named ``worker_name`` in ``outgoing.claimed_by``; its heartbeat is added to ``hearts``.

    Receipts are applied always; what listens for them, on ``host``, only where a setting names a port.
    """
    links = Links(sealer.signing_keys(UNSUBSCRIBING), _page_url(settings))
    paths = ReturnPaths(sealer.signing_keys(PURPOSE), settings.bounce_domain)
    provider = EmailProvider(
        relays,
        pool_size=settings.slots,
        attempt_timeout=settings.attempt_timeout,
        suppressions=SuppressionList(database, min(settings.attempt_timeout * OF_THE_STORE, LONGEST_LOOK)),
        return_paths=paths,
        links=links,
    )
    worker = Worker(
        WorkerSettings.of(Channel.EMAIL, worker_name, settings),
        database,
        tenants,
        provider,
    )
    bus.on_wake(Channel.EMAIL, worker.bell.ring)
    hearts["email"] = worker.heart
    receiving = Receiving(database, paths)
    parts = [Part("email", worker.run), Part("receipts", receiving.run)]
    if settings.port is not None:
        routes = [bounce_route(receiving, settings.bounce_secret), *unsubscribe_routes(database, tenants, links)]
        parts.append(http_part("email-http", make_app(routes, "Waybill email", "/api/v1"), host, settings.port))
    if settings.bounce_port is not None:
        parts.append(Listener(receiving, paths, settings.bounce_protocol).part(host, settings.bounce_port))
    return parts


def _page_url(settings: EmailSettings) -> str | None:
    """Where the unsubscribe page is reached, if there is one."""
    return None if settings.port is None else settings.public_url or f"http://127.0.0.1:{settings.port}"
