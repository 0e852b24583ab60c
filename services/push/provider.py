"""Push as the engine sees it: the entry first, then every target of the recipient at once, then one verdict."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from services.push.accounts import ServiceAccounts
from services.push.call import Call, make
from services.push.entry import enter_sibling
from services.push.fcm import FcmSender
from services.push.fold import fold
from services.push.message import Letter
from services.push.targets import choose
from shared.channel import Channel
from shared.content import PushContent
from shared.delivery.provider import Folded, Held, Parcel, TargetResult
from shared.errors import AccountUnusable, StoreUnavailable
from shared.ids import TenantId
from shared.logs import get_logger
from shared.serviceaccount import ServiceAccount
from shared.store.database import Database
from shared.store.ringing import Situation, TargetState, look
from shared.store.targets import note_used
from shared.tenant import ScopedTenant
from shared.verdict import Delivered, NoVerdict, Rejected, SenderBlocked, Verdict

log = get_logger()

OF_THE_ATTEMPT = 0.9
"""The share of an attempt that we use: the answers that did come are ours to give before the caller cuts it off."""
OF_THE_STORE = 0.4
"""The share within which Postgres must have answered, so that ringing still has its time."""
USE_NOTED_EVERY = timedelta(days=1)


class PushProvider:
    """Rings all targets of a recipient. ``attempt_timeout`` is the caller's hard limit; ours is a little shorter."""

    name = "push"

    def __init__(
        self, database: Database, accounts: ServiceAccounts, fcm: FcmSender, *, attempt_timeout: timedelta
    ) -> None:
        self._database = database
        self._accounts = accounts
        self._fcm = fcm
        self._seconds = attempt_timeout.total_seconds()
        self._circuit_of: dict[TenantId, str] = {}
        self._noting: set[asyncio.Task[None]] = set()

    async def send(self, parcel: Parcel) -> Verdict | Folded:
        """What ringing came to. No connection to Postgres is held meanwhile."""
        if not isinstance(parcel.content, PushContent):
            return Rejected(error="the content is not that of a push")
        deadline = time.monotonic() + self._seconds * OF_THE_ATTEMPT
        try:
            situation = await self._look(parcel)
            seen = time.monotonic()
            account = await self._account(parcel.tenant.tenant_id)
        except StoreUnavailable as exc:
            return NoVerdict(handed_over=False, code="store_unavailable", error=str(exc))
        choice = choose(situation.targets)
        letter = Letter(parcel.content, parcel.stable_id, situation.unread_count)
        held = _held(parcel, account) if choice.ring else None
        ring = () if held is not None else choice.ring
        calls = [Call(target, parcel.progress, situation.seen_at, seen) for target in ring]
        results = await self._tell(parcel, account, await make(calls, self._fcm, account, letter, deadline))
        self._note_used(ring, results, situation.seen_at)
        return fold(results, choice.earlier, entry_exists=situation.entry_exists, held=() if held is None else (held,))

    def circuits(self, tenant: ScopedTenant) -> frozenset[str]:
        """The tenant's Firebase project, as it was last seen."""
        circuit = self._circuit_of.get(tenant.tenant_id)
        return frozenset() if circuit is None else frozenset({circuit})

    async def learn(self, tenant: ScopedTenant) -> None:
        """Look the tenant's service account up again: a changed one is another circuit."""
        with contextlib.suppress(StoreUnavailable):
            await self._account(tenant.tenant_id)

    async def close(self) -> None:
        """Close every connection to Firebase."""
        if self._noting:
            await asyncio.wait(self._noting, timeout=1.0)
        await self._fcm.close()

    async def _look(self, parcel: Parcel) -> Situation:
        within = timedelta(seconds=self._seconds * OF_THE_STORE)
        if not parcel.gate.is_paused(parcel.tenant.tenant_id, Channel.INAPP):
            # The entry exists before the phone buzzes: who taps it at once must find it.
            await enter_sibling(self._database, parcel, within)
        async with self._database.hot(within) as pg:
            return await look(pg, parcel.scope_id, parcel.recipient_id, parcel.job_id, parcel.event_id)

    async def _account(self, tenant_id: TenantId) -> ServiceAccount | SenderBlocked:
        try:
            account = await self._accounts.of(tenant_id)
        except AccountUnusable as exc:
            return SenderBlocked("sender", code="service_account", error=str(exc))
        if account is None:
            return SenderBlocked("sender", code="no_sender", error="the tenant has no push sender")
        self._circuit_of[tenant_id] = account.circuit
        return account

    async def _tell(
        self, parcel: Parcel, account: ServiceAccount | SenderBlocked, results: Sequence[TargetResult]
    ) -> list[TargetResult]:
        """``results`` as they stand beside what others meet at the same project."""
        if isinstance(account, SenderBlocked):
            return list(results)
        tenant_id, gate = parcel.tenant.tenant_id, parcel.gate
        return [
            replace(result, verdict=await gate.told(account.circuit, tenant_id, result.verdict, parcel.unanswered))
            for result in results
        ]

    def _note_used(self, ring: Sequence[TargetState], results: Sequence[TargetResult], seen_at: datetime) -> None:
        delivered = {result.target_id for result in results if isinstance(result.verdict, Delivered)}
        notes = [target.target_id for target in ring if target.target_id in delivered and _is_due(target, seen_at)]
        if notes:
            # Beside the verdict, which must not wait for it.
            noting = asyncio.create_task(self._write_notes(notes))
            self._noting.add(noting)
            noting.add_done_callback(self._noting.discard)

    async def _write_notes(self, target_ids: list[int]) -> None:
        try:
            async with self._database.hot() as pg:
                await note_used(pg, target_ids)
        except StoreUnavailable as exc:
            log.info("push.use_not_noted", count=len(target_ids), error=str(exc))


def _held(parcel: Parcel, account: ServiceAccount | SenderBlocked) -> Held | None:
    return None if isinstance(account, SenderBlocked) else parcel.gate.held(account.circuit, parcel.tenant.tenant_id)


def _is_due(target: TargetState, seen_at: datetime) -> bool:
    return target.last_used_at is None or seen_at - target.last_used_at >= USE_NOTED_EVERY
