"""The Firebase service account that a tenant's pushes go out with."""

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from shared.errors import AccountUnusable, SealError, StoreUnavailable
from shared.ids import TenantId
from shared.sealing import Sealer
from shared.serviceaccount import ServiceAccount, parse_service_account
from shared.store.database import Database
from shared.store.sender_secrets import FCM, bound_to, find_secret

LOOK_EVERY = timedelta(seconds=2)


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


@dataclass(frozen=True, slots=True)
class _Kept:
    looked_at: float
    sealed: bytes | None
    account: ServiceAccount | None


class StoredAccounts:
    """The accounts that tenant files brought, looked up at most every ``LOOK_EVERY``; in an outage the last stays."""

    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._database = database
        self._sealer = sealer
        self._kept: dict[TenantId, _Kept] = {}

    async def of(self, tenant_id: TenantId) -> ServiceAccount | None:
        """The tenant's account as it is stored now, within seconds."""
        kept = self._kept.get(tenant_id)
        if kept is not None and time.monotonic() - kept.looked_at < LOOK_EVERY.total_seconds():
            return kept.account
        looked_at = time.monotonic()
        try:
            async with self._database.hot() as pg:
                sealed = await find_secret(pg, tenant_id, FCM)
        except StoreUnavailable:
            if kept is None:
                raise
            return kept.account
        if kept is not None and sealed == kept.sealed:
            account = kept.account
        else:
            account = None if sealed is None else self._open(tenant_id, sealed)
        self._kept[tenant_id] = _Kept(looked_at, sealed, account)
        return account

    def _open(self, tenant_id: TenantId, sealed: bytes) -> ServiceAccount:
        try:
            return parse_service_account(self._sealer.open(sealed, bound_to(tenant_id, FCM)))
        except SealError as exc:
            raise AccountUnusable(str(exc)) from exc
