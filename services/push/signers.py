"""Who signs a tenant's Web Push: its VAPID key pair, and where push services reach its people."""

from dataclasses import dataclass
from typing import Protocol

from shared.delivery.credentials import Credentials
from shared.errors import SealError, VapidKeyUnusable
from shared.ids import TenantId
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.sender_secrets import VAPID
from shared.tenant import Tenant
from shared.vapid import VapidKey, parse_vapid_key


@dataclass(frozen=True, slots=True)
class Signer:
    """The tenant's key pair, and the address (mailto: or https:) under which its people are reached."""

    key: VapidKey
    contact: str


class VapidKeys(Protocol):
    """Where the push service finds a tenant's key pair: asked at every attempt."""

    async def of(self, tenant_id: TenantId) -> VapidKey | None:
        """The tenant's, None when it has none. Raises VapidKeyUnusable, and StoreUnavailable when it is not known."""


class StoredVapidKeys:
    """The key pairs in the database, followed within seconds; in an outage the last stays."""

    def __init__(self, database: Database, sealer: Sealer) -> None:
        self._credentials = Credentials(database, sealer, VAPID, parse_vapid_key)

    async def of(self, tenant_id: TenantId) -> VapidKey | None:
        """The tenant's key pair as it is stored now."""
        try:
            return await self._credentials.of(tenant_id)
        except SealError as exc:
            raise VapidKeyUnusable(str(exc)) from exc


def contact_of(tenant: Tenant) -> str | None:
    """The address that push services may write to: the file's own, else the website, else whom its mail is from."""
    push, email = tenant.senders.push, tenant.senders.email
    if push is not None and push.webpush is not None:
        return push.webpush.contact
    if tenant.website is not None and tenant.website.startswith("https://"):
        return tenant.website
    return None if email is None else f"mailto:{email.reply_to or email.address}"
