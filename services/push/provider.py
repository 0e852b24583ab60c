"""Push as the engine sees it: the entry first, then every target of the recipient at once, then one verdict."""

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from services.push.call import Call, make
from services.push.connections import ALL_TAKEN
from services.push.entry import enter_sibling
from services.push.fold import fold
from services.push.message import Letter
from services.push.roads import NO_TURN, Roads
from services.push.strangers import Strangers
from services.push.targets import choose
from shared.channel import Channel
from shared.content import PushContent
from shared.delivery.provider import Folded, Held, Parcel, TargetResult
from shared.errors import StoreUnavailable
from shared.logs import get_logger
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

    def __init__(self, database: Database, roads: Roads, *, attempt_timeout: timedelta) -> None:
        self._database = database
        self._roads = roads
        self._seconds = attempt_timeout.total_seconds()
        self._strangers = Strangers()
        self._noting: set[asyncio.Task[None]] = set()

    async def send(self, parcel: Parcel) -> Verdict | Folded:
        """What ringing came to. No connection to Postgres is held meanwhile."""
        if not isinstance(parcel.content, PushContent):
            return Rejected(error="the content is not that of a push")
        deadline = time.monotonic() + self._seconds * OF_THE_ATTEMPT
        try:
            situation = await self._look(parcel)
            seen = time.monotonic()
            letter = Letter(parcel.content, parcel.stable_id, situation.unread_count)
            choice = choose(situation.targets)
            kinds = {target.kind for target in choice.ring}
            roads = {kind: await self._roads.to(kind, parcel.tenant, letter, situation.lives) for kind in kinds}
        except StoreUnavailable as exc:
            return NoVerdict(handed_over=False, code="store_unavailable", error=str(exc))
        calls = [Call(one, roads[one.kind], parcel.progress, situation.seen_at, seen) for one in choice.ring]
        held = _held(parcel, {call.circuit for call in calls})
        calls = [call for call in calls if call.circuit not in held]
        results = await self._tell(parcel, calls, await make(calls, letter, deadline))
        _note_dead(results)
        self._note_used([call.target for call in calls], results, situation.seen_at)
        return fold(results, choice.earlier, entry_exists=situation.entry_exists, held=tuple(held.values()))

    def circuits(self, tenant: ScopedTenant) -> frozenset[str]:
        """What all of the tenant's jobs go through, where that is known."""
        return self._roads.circuits(tenant)

    async def learn(self, tenant: ScopedTenant) -> None:
        """Look again what the tenant's jobs go through."""
        await self._roads.learn(tenant)

    async def close(self) -> None:
        """Close every connection to push services."""
        if self._noting:
            await asyncio.wait(self._noting, timeout=1.0)
        await self._roads.close()

    async def _look(self, parcel: Parcel) -> Situation:
        within = timedelta(seconds=self._seconds * OF_THE_STORE)
        if not parcel.gate.is_paused(parcel.tenant.tenant_id, Channel.INAPP):
            # The entry exists before the phone buzzes: who taps it at once must find it.
            await enter_sibling(self._database, parcel, within)
        async with self._database.hot(within) as pg:
            return await look(pg, parcel.scope_id, parcel.recipient_id, parcel.job_id, parcel.event_id)

    async def _tell(self, parcel: Parcel, calls: Sequence[Call], results: Sequence[TargetResult]) -> list[TargetResult]:
        """``results`` of ``calls`` as they stand beside what others meet on the same circuits."""
        told = list(results)
        for circuit, credential in {(call.circuit, call.road.credential) for call in calls if call.circuit is not None}:
            there = [place for place, call in enumerate(calls) if call.circuit == circuit]
            verdicts = await self._tell_of(parcel, circuit, credential, [results[place].verdict for place in there])
            for place, verdict in zip(there, verdicts, strict=True):
                told[place] = replace(results[place], verdict=verdict)
        return told

    async def _tell_of(
        self, parcel: Parcel, circuit: str, credential: str, verdicts: Sequence[Verdict]
    ) -> list[Verdict]:
        stand = self._strangers.judge(circuit, credential, parcel.recipient, verdicts, again=parcel.unanswered > 0)
        is_silent = any(isinstance(one, NoVerdict) and one.code not in (ALL_TAKEN, NO_TURN) for one in stand)
        for place in _in_order(stand):
            if not _says_nothing(stand[place], is_silent=is_silent):
                stand[place] = await parcel.gate.told(
                    circuit, parcel.tenant.tenant_id, stand[place], parcel.unanswered, parcel.recipient
                )
        return stand

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


def _held(parcel: Parcel, circuits: set[str | None]) -> dict[str, Held]:
    """Those of ``circuits`` that let nothing of the job through now. Each is asked once: it may want one try only."""
    tenant_id, recipient = parcel.tenant.tenant_id, parcel.recipient
    asked = {one: parcel.gate.held(one, tenant_id, recipient) for one in circuits if one is not None}
    return {circuit: held for circuit, held in asked.items() if held is not None}


def _in_order(verdicts: Sequence[Verdict]) -> list[int]:
    """The places of ``verdicts``, what most of them say last: it is what the recipient has to say."""
    blocked = sum(isinstance(verdict, SenderBlocked) for verdict in verdicts)
    mostly_blocked = blocked >= sum(isinstance(verdict, Delivered) for verdict in verdicts)
    return sorted(range(len(verdicts)), key=lambda place: isinstance(verdicts[place], SenderBlocked) == mostly_blocked)


def _says_nothing(verdict: Verdict, *, is_silent: bool) -> bool:
    """Whether nobody was asked for ``verdict``. Where the circuit ``is_silent``, a turn's wait was for it."""
    never = (ALL_TAKEN,) if is_silent else (ALL_TAKEN, NO_TURN)
    return isinstance(verdict, NoVerdict) and verdict.code in never


def _note_dead(results: Sequence[TargetResult]) -> None:
    for one in results:
        if isinstance(one.verdict, Rejected) and one.verdict.target_dead:
            log.info("push.target_dead", target_id=one.target_id, provider=one.provider, code=one.verdict.code)


def _is_due(target: TargetState, seen_at: datetime) -> bool:
    return target.last_used_at is None or seen_at - target.last_used_at >= USE_NOTED_EVERY
