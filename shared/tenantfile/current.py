"""The tenants as they are now, kept by every process and followed in Postgres."""

import asyncio
import time
from collections.abc import Mapping
from datetime import timedelta

from shared.errors import StoreUnavailable
from shared.ids import ScopeId, TenantId
from shared.lifecycle import stopped_within
from shared.logs import get_logger
from shared.store.database import Database
from shared.store.tenantfiles import file_versions, load_scoped
from shared.tenant import ScopedTenant

log = get_logger()

REFRESH_EVERY = timedelta(seconds=2)
_WITHIN = timedelta(seconds=5)


class Tenants:
    """Every tenant's newest file, at most ``REFRESH_EVERY`` behind.

    In an outage the last good ones stay; a model this release cannot read keeps its predecessor.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._versions: dict[TenantId, int] = {}
        self._by_scope: dict[ScopeId, ScopedTenant] = {}

    def of_scope(self, scope_id: ScopeId) -> ScopedTenant | None:
        """The tenant half with this id, or None when there is none."""
        return self._by_scope.get(scope_id)

    def all(self) -> Mapping[ScopeId, ScopedTenant]:
        """Every tenant half."""
        return self._by_scope

    async def load(self) -> None:
        """Load every tenant. Raises StoreUnavailable: a process that knows no tenant is not ready."""
        await self.refresh()

    async def refresh(self) -> None:
        """Load what has changed since the last time. Raises StoreUnavailable and changes nothing then."""
        async with self._database.begin(within=_WITHIN) as connection:
            versions = await file_versions(connection)
            stale = [key for key, version in versions.items() if self._versions.get(key) != version]
            loaded = await load_scoped(connection, stale)
        for tenant_id, version in loaded.unreadable.items():
            log.error("tenants.unreadable", tenant_id=tenant_id, file_version=version)
        fresh = {scoped.scope_id: scoped for scoped in loaded.scoped}
        kept = {key: scoped for key, scoped in self._by_scope.items() if scoped.tenant_id in versions}
        self._by_scope = kept | fresh
        self._versions = dict(versions)

    async def run(self, stop: asyncio.Event) -> None:
        """Refresh until ``stop`` is set."""
        down_since: float | None = None
        while not stop.is_set():
            try:
                await self.refresh()
                if down_since is not None:
                    log.info("tenants.followed_again", after_s=round(time.monotonic() - down_since))
                down_since = None
            except StoreUnavailable as exc:
                if down_since is None:
                    log.warning("tenants.not_refreshed", error=str(exc))
                    down_since = time.monotonic()
            await stopped_within(stop, REFRESH_EVERY.total_seconds())
