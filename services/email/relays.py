"""Which relay a tenant's mail goes out through: its own, or the platform's."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from shared.delivery.credentials import Credentials
from shared.errors import RelayUnusable, SealError
from shared.relay import Relay, parse_relay
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.sender_secrets import RELAY
from shared.tenant import ScopedTenant


class Relays(Protocol):
    """Where the email service finds a tenant's relay: asked at every attempt."""

    async def of(self, tenant: ScopedTenant, within: timedelta) -> Relay:
        """The tenant's relay. Raises RelayUnusable, and StoreUnavailable when it is not known ``within`` that time."""


@dataclass(frozen=True, slots=True)
class OneRelay:
    """The same relay for every tenant, whatever its file says: the mail catcher."""

    relay: Relay

    async def of(self, _tenant: ScopedTenant, _within: timedelta) -> Relay:
        """That relay."""
        return self.relay


class StoredRelays:
    """The relays that tenant files brought, followed within seconds; ``platform`` is for tenants without one."""

    def __init__(self, database: Database, sealer: Sealer, platform: Relay) -> None:
        self._platform = platform
        self._credentials = Credentials(database, sealer, RELAY, _parse)

    async def of(self, tenant: ScopedTenant, within: timedelta) -> Relay:
        """The tenant's relay as it is stored now; the platform's only when its file names none."""
        sender = tenant.tenant.senders.email
        if sender is None or sender.relay is None:
            return self._platform
        try:
            relay = await self._credentials.of(tenant.tenant_id, within)
        except SealError as exc:
            raise RelayUnusable(str(exc)) from exc
        if relay is None:
            # Say of a database that `up` has filled: it stores no credentials.
            raise RelayUnusable("the tenant's relay is not stored: apply its file again")
        return relay


def _parse(secret: bytes) -> Relay:
    try:
        return parse_relay(secret.decode())
    except ValueError as exc:
        raise RelayUnusable(f"the tenant's relay must be {exc}") from exc
