"""The Firebase service account that a tenant's pushes go out with."""

from dataclasses import dataclass
from typing import Protocol

from shared.delivery.credentials import Credentials
from shared.errors import AccountUnusable, SealError
from shared.ids import TenantId
from shared.sealing import Sealer
from shared.serviceaccount import ServiceAccount, parse_service_account
from shared.store.database import Database
from shared.store.sender_secrets import FCM


class ServiceAccounts(Protocol):
    """Where the push service finds a tenant's service account: asked at every attempt."""

    async def of(self, tenant_id: TenantId) -> ServiceAccount | None:
        """The tenant's, None when it has none. Raises AccountUnusable, and StoreUnavailable when it is not known."""


@dataclass(frozen=True, slots=True)
class OneAccount:
    """The same account for every tenant: the simulator's."""

    account: ServiceAccount

    async def of(self, _tenant_id: TenantId) -> ServiceAccount | None:
        """That account."""
        return self.account


class StoredAccounts:
    """The accounts that tenant files brought, followed within seconds; in an outage the last stays."""

    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._credentials = Credentials(database, sealer, FCM, parse_service_account)

    async def of(self, tenant_id: TenantId) -> ServiceAccount | None:
        """The tenant's account as it is stored now."""
        try:
            return await self._credentials.of(tenant_id)
        except SealError as exc:
            raise AccountUnusable(str(exc)) from exc
