"""The stored pauses as one process knows them: read once a second, and written when a provider refuses us."""

import time
from collections.abc import Iterable
from datetime import timedelta

from shared.channel import Channel
from shared.errors import StoreUnavailable
from shared.ids import TenantId
from shared.logs import get_logger
from shared.retry import UNANSWERED_STEP
from shared.store.database import Database
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
        self._pauses: list[Pause] = []
        self._next_look = 0.0
        self._next_forgetting = 0.0
        self._wanted: set[int] = set()
        self._probes: dict[int, float] = {}

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
            self._pauses = await read_pauses(pg)
            for pause_id in self._wanted:
                if await take_probe_if_free(pg, pause_id, self._probe_lasts):
                    self._probes[pause_id] = now + self._probe_lasts.total_seconds()
        self._wanted.clear()
        self._probes = {key: until for key, until in self._probes.items() if until > now}
        self._next_look = time.monotonic() + LOOK_SECONDS

    def is_paused(self, tenant_id: TenantId, channel: Channel | None = None) -> bool:
        """Whether an operator has paused the tenant on ``channel`` (ours, when left out), or all of it."""
        of = channel or self._channel
        return bool(self._pauses) and any(
            (key.kind is PauseKind.CHANNEL and key.channel == of)
            or (key.kind is PauseKind.TENANT and key.tenant_id == tenant_id and key.channel in ("", of))
            for key in self._keys()
        )

    def has_event_types(self) -> bool:
        """Whether any event type is paused on our channel."""
        return any(key.kind is PauseKind.EVENT_TYPE and key.channel in ("", self._channel) for key in self._keys())

    def is_event_type_paused(self, tenant_id: TenantId, event_type: str | None) -> bool:
        """Whether an operator has paused this event type of the tenant on our channel."""
        return bool(self._pauses) and any(
            key.kind is PauseKind.EVENT_TYPE
            and key.tenant_id == tenant_id
            and key.name == event_type
            and key.channel in ("", self._channel)
            for key in self._keys()
        )

    def on_circuit(self, circuit: str, tenant_id: TenantId) -> list[Pause]:
        """The provider's pauses that a job of the tenant meets on ``circuit``."""
        return [
            pause
            for pause in self._pauses
            if pause.key.name == circuit
            and pause.key.channel == self._channel
            and (
                pause.key.kind is PauseKind.RELAY
                or (pause.key.kind is PauseKind.SENDER and pause.key.tenant_id == tenant_id)
            )
        ]

    def has_probe(self, pause: Pause) -> bool:
        """Whether this process may try one job against ``pause``, which is over; if not, it is tried for."""
        if pause.pause_id in self._probes:
            return True
        self._wanted.add(pause.pause_id)
        return False

    def use_probe(self, pause: Pause) -> bool:
        """Whether the caller's job is the one that tries."""
        return self._probes.pop(pause.pause_id, None) is not None

    async def block(self, circuit: str, tenant_id: TenantId, verdict: SenderBlocked) -> None:
        """Have what ``verdict`` blames paused on ``circuit``: known here at once, and within a second elsewhere."""
        if any(not pause.over for pause in self.on_circuit(circuit, tenant_id)):
            return
        if verdict.part == "relay":
            key = PauseKey(PauseKind.RELAY, self._channel, name=circuit)
        else:
            key = PauseKey(PauseKind.SENDER, self._channel, tenant_id, circuit)
        try:
            async with self._database.hot() as pg:
                stored = await block(pg, key, verdict.error or "", verdict.code or "", self._step, CEILING)
                self._pauses = await read_pauses(pg)
        except StoreUnavailable as exc:
            log.warning("delivery.pause_not_stored", channel=self._channel, circuit=circuit, error=str(exc))
            return
        if stored:
            log.error(
                "delivery.sender_blocked",
                channel=self._channel,
                part=verdict.part,
                circuit=circuit,
                tenant_id=tenant_id,
                code=verdict.code,
            )

    async def lift(self, pauses: Iterable[Pause]) -> None:
        """End ``pauses``: a job has got through what they were about."""
        try:
            async with self._database.hot() as pg:
                for one in pauses:
                    await lift(pg, one.pause_id)
                    log.info("delivery.sender_works_again", channel=self._channel, circuit=one.key.name)
                self._pauses = await read_pauses(pg)
        except StoreUnavailable as exc:
            # It stands, and is over: the next probe lifts it.
            log.warning("delivery.pause_not_lifted", channel=self._channel, error=str(exc))

    def _keys(self) -> Iterable[PauseKey]:
        return (pause.key for pause in self._pauses)
