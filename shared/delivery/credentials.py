"""The credentials that tenant files brought, as services find them: asked at every attempt, followed in Postgres."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Generic, TypeVar

from shared.errors import StoreUnavailable
from shared.ids import TenantId
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.sender_secrets import bound_to, find_secret

T = TypeVar("T")

LOOK_EVERY = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    looked_at: float
    sealed: bytes | None
    credential: T | None


class Credentials(Generic[T]):
    """The tenants' credentials of one kind, looked up at most every ``LOOK_EVERY``; in an outage the last stays."""

    def __init__(self, database: Database, sealer: Sealer, kind: str, parse: Callable[[bytes], T]) -> None:
        """``parse`` turns what was sealed into a credential, or raises."""
        self._database = database
        self._sealer = sealer
        self._kind = kind
        self._parse = parse
        self._kept: dict[TenantId, _Kept[T]] = {}

    async def of(self, tenant_id: TenantId, within: timedelta | None = None) -> T | None:
        """The tenant's credential as it is stored now, within seconds; None when it has none.

        Raises what ``parse`` raises, SealError when no master key opens it, StoreUnavailable when it is not known.
        """
        kept = self._kept.get(tenant_id)
        if kept is not None and time.monotonic() - kept.looked_at < LOOK_EVERY.total_seconds():
            return kept.credential
        looked_at = time.monotonic()
        try:
            async with self._database.hot(within) as pg:
                sealed = await find_secret(pg, tenant_id, self._kind)
        except StoreUnavailable:
            if kept is None:
                raise
            # Looked at all the same: in an outage each attempt would wait for Postgres before it sends.
            self._kept[tenant_id] = replace(kept, looked_at=time.monotonic())
            return kept.credential
        if kept is not None and sealed == kept.sealed:
            credential = kept.credential
        else:
            credential = None if sealed is None else self._open(tenant_id, sealed)
        self._kept[tenant_id] = _Kept(looked_at, sealed, credential)
        return credential

    def _open(self, tenant_id: TenantId, sealed: bytes) -> T:
        return self._parse(self._sealer.open(sealed, bound_to(tenant_id, self._kind)))
