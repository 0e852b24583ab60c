"""The router as a list of parts."""

from services.router.consumer import Consumer
from shared.broker.bus import Bus
from shared.lifecycle import Part
from shared.store.database import Database
from shared.tenantfile.current import Tenants


def build(database: Database, bus: Bus, tenants: Tenants) -> list[Part]:
    """The router's parts: none of its own, it lives in the bus's consumer."""
    bus.on_announced(Consumer(database, bus, tenants).consume)
    return []
