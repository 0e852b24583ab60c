"""Ingest as a list of parts: the API, and what keeps its promise afterwards."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from litestar import Router
from litestar.types import ControllerRouterHandler

from services.ingest.accept import Acceptor
from services.ingest.announcer import Announcer
from services.ingest.cancel import cancel_routes
from services.ingest.changes import change_routes
from services.ingest.events import event_routes
from services.ingest.expirer import Expirer
from services.ingest.gauges import Gauges
from services.ingest.listing import Lister
from services.ingest.lists import list_routes
from services.ingest.metrics import metrics_route
from services.ingest.numberer import Numberer
from services.ingest.promoter import Promoter
from services.ingest.purger import Purger
from services.ingest.reading import Reader
from services.ingest.replayer import Replayer
from services.ingest.republisher import Republisher
from services.ingest.retry import retry_routes
from services.ingest.settings import IngestSettings
from services.ingest.suppressions import suppression_routes
from services.ingest.targets import target_routes
from shared.broker.bus import Bus
from shared.lifecycle import Part
from shared.store.database import Database
from shared.tenantfile.current import Tenants
from shared.web.app import make_app
from shared.web.auth import KeyRing, guarded
from shared.web.server import HttpPart, http_part

API_PATH = "/api/v1"
BEARER = "An API key of one half of a tenant: wb_live_… or wb_test_…, made by `waybill key create`."
LOOK_UP_SHARE = 0.3
"""The part of a request's patience with Postgres that looking up its key may take."""


def build(
    settings: IngestSettings,
    database: Database,
    bus: Bus,
    tenants: Tenants,
    host: str,
    extra_routes: Sequence[ControllerRouterHandler] = (),
) -> list[Part]:
    """Ingest's parts, the API first: its ``port`` is the one it really got.

    ``extra_routes`` are mounted beside the API, without its keys. The port is taken at once (CannotListen).
    """
    keys = KeyRing(database, settings.database_timeout * LOOK_UP_SHARE)
    announcer = Announcer(bus, database)
    within = settings.database_timeout * (1 - LOOK_UP_SHARE)
    acceptor, reader = Acceptor(database, announcer, within), Reader(database, within)
    routes = guarded(
        keys,
        [
            *event_routes(tenants, acceptor, reader),
            *cancel_routes(database, within),
            *list_routes(Lister(database, within)),
            *change_routes(database, within),
            *retry_routes(Replayer(database, tenants, within), bus),
            metrics_route(reader),
            *target_routes(database, settings.rules, within),
            *suppression_routes(database, within),
        ],
    )
    app = make_app([Router(API_PATH, route_handlers=routes), *extra_routes], "Waybill", API_PATH, BEARER)
    served = asyncio.Event()
    republisher = Republisher(database, bus, settings.sweep_every, settings.announce_again_after)
    return [
        _saying_when_over(http_part("ingest", app, host, settings.port), served),
        # It outlives the API's last request, so that what that accepted is announced too.
        Part("announcer", lambda _stop: announcer.run(served)),
        Part("promoter", Promoter(database, announcer).run),
        Part("republisher", republisher.run),
        Part("numberer", Numberer(database).run),
        Part("expirer", Expirer(database, settings.sweep_every).run),
        Part("purger", Purger(database, settings.purge_every, settings.keep_content, settings.keep_events).run),
        Part("gauges", Gauges(database).run),
        keys.part(),
    ]


def _saying_when_over(http: HttpPart, served: asyncio.Event) -> HttpPart:
    async def run(stop: asyncio.Event) -> None:
        try:
            await http.run(stop)
        finally:
            if stop.is_set():
                served.set()

    return replace(http, run=run)
