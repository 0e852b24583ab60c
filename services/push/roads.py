"""The ways out of the push service: through Firebase to phones, through Web Push to browsers."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol, assert_never

from services.push.accounts import ServiceAccounts
from services.push.fcm import MOST_TO_PHONE, FcmSender
from services.push.message import Letter, least_size
from services.push.signers import Signer, VapidKeys, contact_of
from services.push.webpush import MOST_TO_BROWSER, Subscription, WebPushSender, write_payload
from shared.endpoint import circuit_of
from shared.errors import AccountUnusable, StoreUnavailable, VapidKeyUnusable
from shared.ids import TenantId
from shared.job import JobReason
from shared.serviceaccount import ServiceAccount
from shared.store.ringing import TargetState
from shared.store.targets import Kind
from shared.tenant import ScopedTenant
from shared.verdict import NoVerdict, Rejected, SenderBlocked, Verdict

AT_ONCE = 4
"""So many browsers of one recipient are posted to at once: twenty that hang do not take every connection to a host."""
NO_TURN = "no_turn"
"""The code of a message whose turn did not come: it says nothing of its own push service."""
OF_THE_MESSAGE = 0.5
"""The share of a message's time within which its turn must come: what leaves late has no time to be answered."""


class Road(Protocol):
    """The way of one job to all of its targets of one kind."""

    @property
    def credential(self) -> str:
        """A short word for whom we go as, which says nothing about the secret."""

    def circuit(self, target: TargetState) -> str | None:
        """The name of what breaks or is paused as a whole on the way to ``target``; None: nothing is on the way."""

    async def ring(self, target: TargetState, letter: Letter, leaving: Callable[[], None]) -> Verdict:
        """What was answered on behalf of ``target``; ``leaving`` is called before the message's body leaves."""


@dataclass(frozen=True, slots=True)
class FcmRoad:
    """Through one Firebase project; the message ``lives`` so long."""

    sender: FcmSender
    account: ServiceAccount
    lives: timedelta

    @property
    def credential(self) -> str:
        """The service account's."""
        return self.account.fingerprint

    def circuit(self, _target: TargetState) -> str | None:
        """The project."""
        return self.account.circuit

    async def ring(self, target: TargetState, letter: Letter, leaving: Callable[[], None]) -> Verdict:
        """What Firebase answered."""
        return await self.sender.send(self.account, target.token or "", letter.kept_for(self.lives), leaving)


@dataclass(frozen=True, slots=True)
class WebPushRoad:
    """Through the push services of browsers, each at its own host; the message ``lives`` so long."""

    sender: WebPushSender
    signer: Signer
    lives: timedelta
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    @property
    def credential(self) -> str:
        """The key pair's."""
        return self.signer.key.fingerprint

    def circuit(self, target: TargetState) -> str | None:
        """The push service's host; None where it is not even asked."""
        endpoint = target.token or ""
        return f"webpush {circuit_of(endpoint)}" if self.sender.posts_to(endpoint) else None

    async def ring(self, target: TargetState, letter: Letter, leaving: Callable[[], None]) -> Verdict:
        """What the push service answered."""
        if target.token is None or target.keys is None:
            return Rejected(code="no_keys", error="the subscription has no keys")
        try:
            async with asyncio.timeout(self.sender.seconds * OF_THE_MESSAGE):
                await self.turns.acquire()
        except TimeoutError:
            return NoVerdict(handed_over=False, code=NO_TURN, error="the recipient's other browsers took all the time")
        try:
            subscription = Subscription(target.token, target.keys)
            return await self.sender.send(self.signer, subscription, letter, self.lives, leaving)
        finally:
            self.turns.release()


@dataclass(frozen=True, slots=True)
class ClosedRoad:
    """No way at all, for want of a credential or for a message's size: ``verdict`` says so for every target."""

    verdict: SenderBlocked | Rejected
    credential: str = ""

    def circuit(self, _target: TargetState) -> str | None:
        """Nothing is asked, so that nothing can break."""
        return None

    async def ring(self, _target: TargetState, _letter: Letter, _leaving: Callable[[], None]) -> Verdict:
        """That verdict."""
        return self.verdict


class Roads:
    """All ways out, found anew for every attempt: credentials change while jobs wait."""

    def __init__(
        self, accounts: ServiceAccounts, fcm: FcmSender, vapid_keys: VapidKeys, webpush: WebPushSender
    ) -> None:
        self._accounts = accounts
        self._fcm = fcm
        self._vapid_keys = vapid_keys
        self._webpush = webpush
        self._circuit_of: dict[TenantId, str] = {}
        self._with_browsers: set[TenantId] = set()

    async def to(self, kind: Kind, tenant: ScopedTenant, letter: Letter, lives: timedelta) -> Road:
        """The way of ``letter``, which ``lives`` so long, to targets of ``kind``. Raises StoreUnavailable."""
        match kind:
            case "fcm":
                return _wide_enough(await self._to_phones(tenant, lives), least_size(letter), MOST_TO_PHONE)
            case "webpush":
                road = await self._to_browsers(tenant, lives)
                return _wide_enough(road, len(write_payload(letter)), MOST_TO_BROWSER)
            case _:
                assert_never(kind)

    def circuits(self, tenant: ScopedTenant) -> frozenset[str]:
        """The tenant's Firebase project, as it was last seen; of browsers nobody knows which host is next."""
        circuit = self._circuit_of.get(tenant.tenant_id)
        if circuit is None or tenant.tenant_id in self._with_browsers:
            return frozenset()
        return frozenset({circuit})

    async def learn(self, tenant: ScopedTenant) -> None:
        """Look the tenant's service account up again: a changed one is another circuit."""
        with contextlib.suppress(StoreUnavailable):
            await self._to_phones(tenant, timedelta())
            await self._to_browsers(tenant, timedelta())

    async def close(self) -> None:
        """Close every connection."""
        await self._fcm.close()
        await self._webpush.close()

    async def _to_phones(self, tenant: ScopedTenant, lives: timedelta) -> Road:
        try:
            account = await self._accounts.of(tenant.tenant_id)
        except AccountUnusable as exc:
            return _closed("service_account", str(exc))
        if account is None:
            return _closed("no_sender", "the tenant has no push sender")
        self._circuit_of[tenant.tenant_id] = account.circuit
        return FcmRoad(self._fcm, account, lives)

    async def _to_browsers(self, tenant: ScopedTenant, lives: timedelta) -> Road:
        try:
            key = await self._vapid_keys.of(tenant.tenant_id)
        except VapidKeyUnusable as exc:
            return _closed("vapid_key", str(exc))
        contact = contact_of(tenant.tenant)
        if key is None:
            return _closed("no_vapid_key", "the tenant has no VAPID key: `waybill sender vapid` makes one")
        if contact is None:
            return _closed("no_contact", "push services want to know whom to write to: senders.push.webpush.contact")
        self._with_browsers.add(tenant.tenant_id)
        return WebPushRoad(self._webpush, Signer(key, contact), lives)


def _wide_enough(road: Road, size: int, most: int) -> Road:
    """``road``, unless nobody at its end takes a message of ``size`` bytes: then nobody is asked."""
    if size <= most:
        return road
    error = f"{size} bytes, of {most} at most"
    return ClosedRoad(Rejected(JobReason.PAYLOAD_TOO_LARGE, code="too_large", error=error))


def _closed(code: str, error: str) -> ClosedRoad:
    return ClosedRoad(SenderBlocked("sender", code, error))
