"""Email as the engine sees it: the tenant's relay first, then one attempt over that relay's own connections."""

import asyncio
import contextlib
import ssl
from dataclasses import replace
from datetime import timedelta

from services.email.cap import Cap
from services.email.relays import Relays
from services.email.returnpath import ReturnPaths
from services.email.smtp import SmtpProvider
from services.email.suppressed import SuppressionList
from services.email.unsubscribe import Links
from shared.content import EmailContent
from shared.delivery.provider import Ended, Folded, Held, Parcel
from shared.errors import RelayUnusable, StoreUnavailable
from shared.ids import TenantId
from shared.job import JobReason, JobStatus
from shared.relay import Relay
from shared.tenant import ScopedTenant
from shared.verdict import NoVerdict, SenderBlocked, Verdict

OF_THE_STORE = 0.2
"""The share of an attempt within which it must be known which relay to take, where that is less than LONGEST_LOOK."""
LONGEST_LOOK = timedelta(seconds=2)
OF_THE_CAP = 0.1
"""The share of an attempt that may be spent waiting for the sender's turn, where that is less than LONGEST_WAIT."""
LONGEST_WAIT = 1.0


class EmailProvider:
    """Sends each mail through its tenant's relay, resolved at every attempt. Tenants with one relay share its pool."""

    name = "smtp"

    def __init__(
        self,
        relays: Relays,
        *,
        pool_size: int,
        attempt_timeout: timedelta,
        suppressions: SuppressionList | None = None,
        return_paths: ReturnPaths | None = None,
        links: Links | None = None,
    ) -> None:
        """``pool_size``: connections per relay. ``attempt_timeout`` is the caller's hard limit.

        ``suppressions`` is asked before each mail: since it was routed, an address may have died.
        """
        self._relays = relays
        self._suppressions = suppressions
        self._return_paths = return_paths
        self._links = links
        self._cap = Cap(min(attempt_timeout.total_seconds() * OF_THE_CAP, LONGEST_WAIT))
        self._pool_size = pool_size
        self._attempt_timeout = attempt_timeout
        # One for all: reading the authorities takes tens of milliseconds.
        self._tls = ssl.create_default_context()
        self._by_relay: dict[Relay, SmtpProvider] = {}
        self._relay_of: dict[TenantId, Relay] = {}

    async def send(self, parcel: Parcel) -> Verdict | Folded | Held:
        """What became of one attempt to hand the mail to the tenant's relay; over before it if nobody may get it."""
        began = asyncio.get_running_loop().time()
        if (over := await self._keep_to_the_cap(parcel)) is not None:
            return over
        try:
            if await self._is_suppressed(parcel):
                return Folded(Ended(JobStatus.SKIPPED, JobReason.SUPPRESSED), (), delivered_any=False)
            relay = await self._look_up(parcel.tenant)
        except StoreUnavailable as exc:
            return NoVerdict(handed_over=False, code="store_unavailable", error=str(exc))
        except RelayUnusable as exc:
            return SenderBlocked("relay", code="relay", error=str(exc))
        if (held := parcel.held_on(relay.circuit)) is not None:
            return held
        return _own_matter(parcel.tenant, await self._provider(relay).send(parcel, began))

    def circuits(self, tenant: ScopedTenant) -> frozenset[str]:
        """The tenant's relay, as it was last seen."""
        relay = self._relay_of.get(tenant.tenant_id)
        return frozenset() if relay is None else frozenset({relay.circuit})

    async def learn(self, tenant: ScopedTenant) -> None:
        """Look the tenant's relay up again: a changed login is another circuit."""
        with contextlib.suppress(StoreUnavailable, RelayUnusable):
            await self._look_up(tenant)

    async def close(self) -> None:
        """Close every kept connection to any relay."""
        for provider in self._by_relay.values():
            await provider.close()
        self._by_relay.clear()
        self._relay_of.clear()

    async def _keep_to_the_cap(self, parcel: Parcel) -> Held | None:
        """None once a mail of this sender may go, which may take a moment."""
        sender = parcel.tenant.tenant.senders.email
        if sender is None or sender.per_second is None:
            return None
        return await self._cap.turn(f"{parcel.tenant.tenant_id} {sender.address}", sender.per_second)

    async def _is_suppressed(self, parcel: Parcel) -> bool:
        if self._suppressions is None or not isinstance(parcel.content, EmailContent):
            return False
        return await self._suppressions.has(parcel.scope_id, parcel.content.to_address)

    async def _look_up(self, tenant: ScopedTenant) -> Relay:
        """The tenant's relay; one that no tenant uses any more is let go."""
        relay = await self._relays.of(tenant, min(self._attempt_timeout * OF_THE_STORE, LONGEST_LOOK))
        before = self._relay_of.get(tenant.tenant_id)
        self._relay_of[tenant.tenant_id] = relay
        if before is not None and before != relay and before not in self._relay_of.values():
            # Its kept connections, logged in with what may have been withdrawn. What is under way goes on.
            retired = self._by_relay.pop(before, None)
            if retired is not None:
                retired.retire()
        return relay

    def _provider(self, relay: Relay) -> SmtpProvider:
        found = self._by_relay.get(relay)
        if found is None:
            found = SmtpProvider(
                relay,
                pool_size=self._pool_size,
                attempt_timeout=self._attempt_timeout,
                tls=self._tls,
                return_paths=self._return_paths,
                links=self._links,
            )
            self._by_relay[relay] = found
        return found


def _own_matter(tenant: ScopedTenant, verdict: Verdict) -> Verdict:
    """``verdict`` as it stands for others: what a tenant's own relay refuses concerns no other tenant."""
    sender = tenant.tenant.senders.email
    if isinstance(verdict, SenderBlocked) and sender is not None and sender.relay is not None:
        return replace(verdict, part="sender")
    return verdict
