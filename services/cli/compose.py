"""Which settings and which parts each service consists of: the one place that knows all services."""

from collections.abc import Callable
from dataclasses import dataclass

from services.cli.ground import Ground
from shared.lifecycle import Part
from shared.relay import parse_relay
from shared.settings import (
    BusSettings,
    EndpointSettings,
    ProcessSettings,
    Settings,
    StoreSettings,
    listed,
    load_settings,
)

ALL = "all"


class SharedBusSettings(Settings):
    """Where RabbitMQ is, for a process that others must be able to wake."""

    amqp_url: str = listed("AMQP_URL")


@dataclass(frozen=True)
class Service:
    """One service: how to get its settings classes, and how to build its parts. Both import it first."""

    settings: Callable[[], list[type[Settings]]]
    build: Callable[[Ground], list[Part]]


def settings_classes(service: str) -> list[type[Settings]]:
    """Every class of settings a process of ``service`` reads."""
    bus = BusSettings if service == ALL else SharedBusSettings
    own = [cls for one in _chosen(service) for cls in SERVICES[one].settings()]
    return [ProcessSettings, StoreSettings, bus, *own]


def build_parts(service: str, ground: Ground) -> list[Part]:
    """The parts of ``service`` on ``ground``; the ports they listen on are taken at once (CannotListen)."""
    return [part for one in _chosen(service) for part in SERVICES[one].build(ground)]


def _chosen(service: str) -> list[str]:
    return list(SERVICES) if service == ALL else [service]


def _ingest_settings() -> list[type[Settings]]:
    from services.ingest.settings import IngestSettings

    return [IngestSettings]


def _build_ingest(ground: Ground) -> list[Part]:
    from services.ingest.app import build
    from services.ingest.settings import IngestSettings

    settings = load_settings(IngestSettings, ground.environ)
    return build(settings, ground.database, ground.bus, ground.tenants, ground.host, ground.extra_routes)


def _router_settings() -> list[type[Settings]]:
    return []


def _build_router(ground: Ground) -> list[Part]:
    from services.router.app import build

    return build(ground.database, ground.bus, ground.tenants)


def _email_settings() -> list[type[Settings]]:
    from services.email.settings import EmailSettings

    return [EmailSettings]


def _build_email(ground: Ground) -> list[Part]:
    from services.email.app import build
    from services.email.relays import OneRelay, StoredRelays
    from services.email.settings import EmailSettings

    settings = load_settings(EmailSettings, ground.environ)
    platform = parse_relay(settings.smtp_url)
    return build(
        settings,
        ground.database,
        ground.bus,
        ground.tenants,
        StoredRelays(ground.database, ground.sealer, platform) if ground.sinks is None else OneRelay(platform),
        ground.sealer,
        host=ground.host,
        worker_name=ground.worker_name(),
        hearts=ground.hearts,
    )


def _push_settings() -> list[type[Settings]]:
    from services.push.settings import PushSettings

    return [PushSettings, EndpointSettings]


def _build_push(ground: Ground) -> list[Part]:
    from services.push.accounts import OneAccount, StoredAccounts
    from services.push.app import build
    from services.push.settings import PushSettings
    from services.push.signers import StoredVapidKeys

    return build(
        load_settings(PushSettings, ground.environ),
        ground.database,
        ground.bus,
        ground.tenants,
        StoredAccounts(ground.database, ground.sealer)
        if ground.sinks is None
        else OneAccount(ground.sinks.service_account),
        StoredVapidKeys(ground.database, ground.sealer),
        load_settings(EndpointSettings, ground.environ).rules,
        worker_name=ground.worker_name(),
        hearts=ground.hearts,
    )


class InboxSettings(EndpointSettings):
    """Where end users find their inbox, and where their browsers may be."""

    port: int = listed("INBOX_PORT")


def _inapp_settings() -> list[type[Settings]]:
    return [InboxSettings]


def _build_inapp(ground: Ground) -> list[Part]:
    from services.inapp.app import build

    settings = load_settings(InboxSettings, ground.environ)
    return build(
        ground.database,
        ground.bus,
        ground.tenants,
        ground.sealer,
        host=ground.host,
        port=settings.port,
        rules=settings.rules,
        hearts=ground.hearts,
        with_demo=ground.sinks is not None,
    )


SERVICES = {
    "ingest": Service(_ingest_settings, _build_ingest),
    "router": Service(_router_settings, _build_router),
    "email": Service(_email_settings, _build_email),
    "push": Service(_push_settings, _build_push),
    "inapp": Service(_inapp_settings, _build_inapp),
}
