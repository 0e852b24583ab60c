"""The in-app service as a list of parts: the loop that writes entries, and the API that reads them."""

from services.inapp.api import build_api
from services.inapp.demo import demo_pages
from services.inapp.inbox import InboxWriter
from shared.broker.bus import Bus
from shared.channel import Channel
from shared.delivery.worker import KnownTenants
from shared.endpoint import EndpointRules
from shared.lifecycle import Heart, Part
from shared.sealing import Sealer
from shared.store.database import Database
from shared.web.server import http_part


def build(
    database: Database,
    bus: Bus,
    tenants: KnownTenants,
    sealer: Sealer,
    *,
    host: str,
    port: int,
    rules: EndpointRules,
    hearts: dict[str, Heart],
    with_demo: bool = False,
) -> list[Part]:
    """The loop and the API on ``host``:``port``; the loop's heartbeat is added to ``hearts``.

    ``rules`` say where a browser's endpoint may be; ``with_demo``: serve the page that subscribes a browser.
    """
    writer = InboxWriter(database, tenants)
    bus.on_wake(Channel.INAPP, writer.bell.ring)
    hearts["inapp"] = writer.heart
    api = build_api(database, sealer, rules=rules, pages=demo_pages() if with_demo else ())
    return [Part("inapp", writer.run), http_part("inapp-http", api, host, port)]
