"""The in-app claim loop: each round claims, writes entries and settles in one statement."""

import asyncio
import random
import time
from datetime import UTC, datetime, timedelta

import asyncpg

from shared.channel import Channel
from shared.delivery.attempt import EVENT_TYPE_HOLD
from shared.delivery.breaker import ANY
from shared.delivery.effect import SMALLINT_MAX, held
from shared.delivery.pauses import Pauses
from shared.delivery.record import log_entered, report_of
from shared.delivery.rounds import Rounds
from shared.delivery.wake import Doorbell, jittered
from shared.delivery.worker import KnownTenants
from shared.errors import StoreUnavailable
from shared.ids import ScopeId
from shared.job import JobReason, JobStatus
from shared.lifecycle import Heart
from shared.logs import get_logger
from shared.retry import wait_unanswered
from shared.store.claim import Claim, Share, claim
from shared.store.database import Database
from shared.store.inbox_delivery import Entered, enter_due, enter_if_claimed
from shared.store.settle import AttemptRow, Report, settle_if_claimed

log = get_logger()

BATCH = 500
POLL_BUSY_SECONDS = 1.0
POLL_IDLE_SECONDS = 5.0
FALLBACK_LEASE = timedelta(seconds=30)


class InboxWriter:
    """One loop over the due in-app jobs. ``bell`` is rung by the bus; a poll is the floor."""

    def __init__(self, database: Database, tenants: KnownTenants) -> None:
        self.bell = Doorbell()
        self.heart = Heart()
        self._database = database
        self._tenants = tenants
        self._pauses = Pauses(database, Channel.INAPP)
        self._rounds = Rounds(Channel.INAPP, BATCH)
        self._busy = False
        self._rng = random.Random()  # noqa: S311 - spreads retries, guards nothing

    async def run(self, stop: asyncio.Event) -> None:
        """Write entries until ``stop`` is set."""
        nudging = asyncio.create_task(self._nudge_at(stop))
        try:
            while not stop.is_set():
                self.heart.beat()
                await self._round()
        finally:
            nudging.cancel()

    async def _round(self) -> None:
        try:
            await self._pauses.look()
            await self._rounds.look(self.bell, self._database)
            self._busy = bool(await self._enter(self._rounds.shares(BATCH, most_of=self._room)))
        except StoreUnavailable as exc:
            log.debug("delivery.claim_waits", channel=Channel.INAPP, error=str(exc))
            await self.bell.wait(jittered(POLL_BUSY_SECONDS))
            return
        if not self._rounds:
            await self.bell.wait(self._poll_seconds())

    def _poll_seconds(self) -> float:
        busy = self._busy or self._rounds.has_waiting or self._rounds.next_look_seconds is not None
        return jittered(POLL_BUSY_SECONDS if busy else POLL_IDLE_SECONDS)

    def _room(self, scope_id: ScopeId) -> int:
        """How many jobs of the scope may be taken now."""
        tenant = self._tenants.of_scope(scope_id)
        return 0 if tenant is not None and self._pauses.is_paused(tenant.tenant_id) else ANY

    async def _enter(self, shares: list[Share]) -> list[Entered]:
        if not shares:
            return []
        began = time.monotonic()
        entered = await self._enter_or_one_by_one(shares)
        self._rounds.note_taken(shares, [(one.scope_id, one.lane) for one in entered])
        log_entered(entered, timedelta(seconds=time.monotonic() - began))
        return entered

    async def _enter_or_one_by_one(self, shares: list[Share]) -> list[Entered]:
        if not self._pauses.has_event_types():
            try:
                async with self._database.hot() as pg:
                    return await enter_due(pg, shares)
            except asyncpg.PostgresError:
                log.exception("delivery.entries_failed", channel=Channel.INAPP)
        # One job spoils the statement, or some have to wait. Claimed under a lease they can be told apart.
        async with self._database.hot() as pg:
            claims = await claim(pg, Channel.INAPP, shares, FALLBACK_LEASE, "one-by-one", suspects=True)
        entered: list[Entered] = []
        waiting = []
        for one in claims:
            if self._waits(one):
                waiting.append(report_of(one, held(one, EVENT_TYPE_HOLD)))
            else:
                entered += await self._enter_or_set_aside(one)
        async with self._database.hot() as pg:
            await settle_if_claimed(pg, Channel.INAPP, waiting)
        return entered

    def _waits(self, one: Claim) -> bool:
        tenant = self._tenants.of_scope(one.scope_id)
        return tenant is not None and self._pauses.is_event_type_paused(tenant.tenant_id, one.event_type)

    async def _enter_or_set_aside(self, one: Claim) -> list[Entered]:
        try:
            async with self._database.hot() as pg:
                return await enter_if_claimed(pg, one.job_id, one.claim_seq)
        except asyncpg.PostgresError as exc:
            log.exception("delivery.entry_failed", job=one.job_id)
            async with self._database.hot() as pg:
                await settle_if_claimed(pg, Channel.INAPP, [_set_aside(one, exc, self._rng)])
            return []

    async def _nudge_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self.bell.nudge()


def _set_aside(one: Claim, exc: asyncpg.PostgresError, rng: random.Random) -> Report:
    silences = min(one.unanswered + 1, SMALLINT_MAX)
    row = AttemptRow(
        0,
        "inbox",
        "no_verdict",
        "before_handover",
        exc.sqlstate,
        None,
        None,
        datetime.now(UTC),
        timedelta(),
        False,
        False,
    )
    wait = wait_unanswered(silences, rng)
    return Report(
        one.job_id, one.claim_seq, JobStatus.PENDING, JobReason.NONE, wait, False, silences, one.unknowns, False, (row,)
    )
