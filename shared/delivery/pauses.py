"""The stored pauses as one process knows them: read once a second, and written when a provider refuses us."""

import time
from collections import OrderedDict
from collections.abc import Iterable
from datetime import timedelta

import asyncpg

from shared.channel import Channel
from shared.delivery.witnesses import YIELD_SECONDS, Recipient, Witnesses
from shared.errors import StoreUnavailable
from shared.ids import TenantId
from shared.logs import get_logger
from shared.retry import UNANSWERED_STEP
from shared.store.database import Database, HotConnection
from shared.store.pauses import (
    Pause,
    PauseKey,
    PauseKind,
    block,
    forget_stale,
    lift,
    read_pauses,
    take_probe_if_free,
)
from shared.verdict import SenderBlocked

log = get_logger()

LOOK_SECONDS = 1.0
"""An operator's pause is obeyed within two seconds: this, and what an attempt takes to notice."""
FORGET_SECONDS = 60.0
FORGOTTEN_AFTER = timedelta(hours=1)
CEILING = timedelta(minutes=15)
"""The longest pause for a refusal: somebody has to mend it, and nobody shall have to tell us that they did."""
YIELD = timedelta(seconds=YIELD_SECONDS)
MOST_REFUSED = 4_096
MOST_DOUBTED = 20
"""Of one tenant: recipients choose the hosts of their targets, and every process reads all pauses once a second."""


class Pauses:
    """What is paused for the workers of ``channel``; a probe that is taken is this process's for ``probe_lasts``."""

    def __init__(
        self,
        database: Database,
        channel: Channel,
        step: timedelta = UNANSWERED_STEP,
        probe_lasts: timedelta = UNANSWERED_STEP,
    ) -> None:
        """``step``: the first pause after a refusal."""
        self._database = database
        self._channel = channel
        self._step = step
        self._probe_lasts = probe_lasts
        self._standing: dict[PauseKey, Pause] = {}
        self._next_look = 0.0
        self._next_forgetting = 0.0
        self._wanted: set[int] = set()
        self._probes: dict[int, float] = {}
        self._refused: OrderedDict[tuple[str, TenantId], Witnesses] = OrderedDict()

    async def look(self) -> None:
        """Read the pauses when it is time to, and try for the probes that somebody asked for.

        Raises StoreUnavailable, and keeps what was known then.
        """
        now = time.monotonic()
        if now < self._next_look:
            return
        async with self._database.hot() as pg:
            if now >= self._next_forgetting:
                await forget_stale(pg, FORGOTTEN_AFTER)
                self._next_forgetting = now + FORGET_SECONDS
            await self._read(pg)
            # Jobs in flight ask for more meanwhile.
            wanted, self._wanted = self._wanted, set()
            for pause_id in wanted:
                if await take_probe_if_free(pg, pause_id, self._probe_lasts):
                    self._probes[pause_id] = now + self._probe_lasts.total_seconds()
        self._probes = {key: until for key, until in self._probes.items() if until > now}
        self._next_look = time.monotonic() + LOOK_SECONDS

    def is_paused(self, tenant_id: TenantId, channel: Channel | None = None) -> bool:
        """Whether an operator has paused the tenant on ``channel`` (ours, when left out), or all of it."""
        if not self._standing:
            return False
        of = channel or self._channel
        return self._stands(
            PauseKey(PauseKind.CHANNEL, of),
            PauseKey(PauseKind.TENANT, of, tenant_id),
            PauseKey(PauseKind.TENANT, "", tenant_id),
        )

    def has_event_types(self) -> bool:
        """Whether any event type is paused on our channel."""
        return any(key.kind is PauseKind.EVENT_TYPE and key.channel in ("", self._channel) for key in self._standing)

    def is_event_type_paused(self, tenant_id: TenantId, event_type: str | None) -> bool:
        """Whether an operator has paused this event type of the tenant on our channel."""
        if event_type is None or not self._standing:
            return False
        return self._stands(
            PauseKey(PauseKind.EVENT_TYPE, self._channel, tenant_id, event_type),
            PauseKey(PauseKind.EVENT_TYPE, "", tenant_id, event_type),
        )

    def on_circuit(self, circuit: str, tenant_id: TenantId) -> list[Pause]:
        """The provider's pauses that a job of the tenant meets on ``circuit``."""
        if not self._standing:
            return []
        keys = (
            PauseKey(PauseKind.RELAY, self._channel, name=circuit),
            PauseKey(PauseKind.SENDER, self._channel, tenant_id, circuit),
        )
        return [self._standing[key] for key in keys if key in self._standing]

    def binding(self, circuit: str, tenant_id: TenantId, recipient: Recipient | None) -> list[Pause]:
        """Those of them that hold a job for ``recipient`` (None: they hold whoever it is for)."""
        standing = self.on_circuit(circuit, tenant_id)
        if not standing or recipient is None:
            return standing
        refused = recipient in self._refused.get((circuit, tenant_id), ())
        return [pause for pause in standing if refused or pause.holds_all]

    def may_probe(self, pause: Pause, recipient: Recipient | None) -> bool:
        """Whether a job for ``recipient`` is the one that tries whether ``pause`` is over: this says so once."""
        if not pause.over or (pause.holds_all and self._has_to_yield(pause, recipient)):
            return False
        return self.has_probe(pause) and self._probes.pop(pause.pause_id, None) is not None

    def has_probe(self, pause: Pause) -> bool:
        """Whether this process may try one job against ``pause``, which is over; if not, it is tried for."""
        if pause.pause_id in self._probes:
            return True
        self._wanted.add(pause.pause_id)
        return False

    def note_taken(self, circuit: str, tenant_id: TenantId) -> None:
        """A message of the tenant was taken on ``circuit``."""
        if self._refused:
            self._refused.pop((circuit, tenant_id), None)

    async def block(
        self, circuit: str, tenant_id: TenantId, verdict: SenderBlocked, recipient: Recipient | None = None
    ) -> None:
        """Have what ``verdict`` blames paused on ``circuit``: known here at once, and within a second elsewhere.

        Where it was for a ``recipient``, others are held when enough of them were refused in a row, and what only they
        have met is tried again and again after the same time: their word makes no pause longer.
        """
        standing = self.on_circuit(circuit, tenant_id)
        holds_all = recipient is None or self._note_refused(circuit, tenant_id, recipient)
        if any(not pause.over and (pause.holds_all or not holds_all) for pause in standing):
            return
        if not standing and not holds_all and self._count_doubted(tenant_id) >= MOST_DOUBTED:
            return
        if verdict.part == "relay":
            key = PauseKey(PauseKind.RELAY, self._channel, name=circuit)
        else:
            key = PauseKey(PauseKind.SENDER, self._channel, tenant_id, circuit)
        ceiling = CEILING if recipient is None else self._step
        reason, code = verdict.error or "", verdict.code or ""
        try:
            async with self._database.hot() as pg:
                stored = await block(pg, key, reason, code, self._step, ceiling, holds_all=holds_all)
                await self._read(pg)
        except (StoreUnavailable, asyncpg.PostgresError) as exc:
            log.warning("delivery.pause_not_stored", channel=self._channel, circuit=circuit, error=str(exc))
            return
        if stored:
            say = log.error if holds_all else log.warning
            say(
                "delivery.sender_blocked",
                channel=self._channel,
                part=verdict.part,
                circuit=circuit,
                tenant_id=tenant_id,
                code=verdict.code,
                holds_all=holds_all,
            )

    async def lift(self, pauses: Iterable[Pause]) -> None:
        """End ``pauses``: a job has got through what they were about."""
        try:
            async with self._database.hot() as pg:
                for one in pauses:
                    await lift(pg, one.pause_id)
                    log.info("delivery.sender_works_again", channel=self._channel, circuit=one.key.name)
                await self._read(pg)
        except (StoreUnavailable, asyncpg.PostgresError) as exc:
            # It stands, and is over: the next probe lifts it.
            log.warning("delivery.pause_not_lifted", channel=self._channel, error=str(exc))

    async def _read(self, pg: HotConnection) -> None:
        # By their keys: every deal asks for each scope that waits, and thousands may be paused.
        before, self._standing = self._standing, {pause.key: pause for pause in await read_pauses(pg)}
        for key in before.keys() - self._standing.keys():
            # Somebody got through, here or elsewhere; or there are other credentials.
            self._refused.pop((key.name, key.tenant_id), None)

    def _note_refused(self, circuit: str, tenant_id: TenantId, recipient: Recipient) -> bool:
        """Whether those refused on ``circuit`` in a row are enough."""
        witnesses = self._refused.setdefault((circuit, tenant_id), Witnesses())
        self._refused.move_to_end((circuit, tenant_id))
        if len(self._refused) > MOST_REFUSED:
            self._refused.popitem(last=False)
        witnesses.note(recipient)
        return witnesses.are_enough

    def _count_doubted(self, tenant_id: TenantId) -> int:
        return sum(pause.key.tenant_id == tenant_id and not pause.holds_all for pause in self._standing.values())

    def _has_to_yield(self, pause: Pause, recipient: Recipient | None) -> bool:
        refused = self._refused.get((pause.key.name, pause.key.tenant_id), ())
        return recipient in refused and pause.left is not None and pause.left > -YIELD

    def _stands(self, *keys: PauseKey) -> bool:
        return any(key in self._standing for key in keys)
