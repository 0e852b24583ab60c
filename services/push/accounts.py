"""The Firebase service account that a tenant's pushes go out with."""

import hashlib
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from shared.errors import SealError, StoreUnavailable, WaybillError
from shared.ids import TenantId
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.sender_secrets import FCM, bound_to, find_secret

LOOK_EVERY = timedelta(seconds=2)


class AccountUnusable(WaybillError):
    """A service account that cannot be read, or that is none; the text names the field and never what is in it."""


class _Fields(msgspec.Struct):
    """What Google puts in the file; more stands in it, and is handed on as it is."""

    type: str
    project_id: str
    client_email: str
    token_uri: str
    private_key: str


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """One service account. ``fingerprint`` tells two apart, ``fields`` is the whole file for firebase-admin."""

    project_id: str
    client_email: str
    token_uri: str
    fingerprint: str
    fields: dict[str, object] = field(repr=False, compare=False)


def parse_service_account(raw: bytes) -> ServiceAccount:
    """The service account in the JSON file that Google issued. Raises AccountUnusable."""
    try:
        known = msgspec.json.decode(raw, type=_Fields)
        whole = msgspec.json.decode(raw, type=dict[str, object])
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise AccountUnusable(f"the service account is not one: {exc}") from exc
    if known.type != "service_account":
        raise AccountUnusable("the service account is not one: `type` is not service_account")
    if urlsplit(known.token_uri).scheme not in ("https", "http"):
        raise AccountUnusable("the service account is not one: `token_uri` is no URL")
    if not known.project_id:
        raise AccountUnusable("the service account is not one: `project_id` is empty")
    return ServiceAccount(known.project_id, known.client_email, known.token_uri, hashlib.sha256(raw).hexdigest(), whole)


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
