"""Says in /metrics what waits and what is paused: the first figures to look at when something is late."""

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

from shared.channel import BUILT_CHANNELS, Channel
from shared.errors import StoreUnavailable
from shared.lifecycle import stopped_within
from shared.logs import get_logger
from shared.metrics import changes_waiting_seconds, oldest_due_seconds, oldest_queued_seconds, pauses_standing
from shared.metrics import due_jobs as due_jobs_gauge
from shared.metrics import queued_events as queued_events_gauge
from shared.store.backlog import Backlog, due_jobs, queued_events
from shared.store.database import Database, HotConnection
from shared.store.discovery import EVER, RECENT
from shared.store.numbering import unnumbered_seconds
from shared.store.pauses import OPERATORS, Pause, PauseKind, read_pauses
from shared.web.instant import write_instant

log = get_logger()

LOOK_EVERY_SECONDS = 15.0
WHOLE_LOOK_EVERY = 4
"""Every fourth look, one a minute, looks back without a bound: something may have been committed late."""
EVENTS = "events"


class Gauges:
    """Looks every 15 seconds. Each replica of ingest says the same: whoever adds them up takes the largest."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._numbers = itertools.count()
        self._since: dict[str, timedelta] = {}
        self._paused: Mapping[int, Pause] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Look until ``stop``."""
        while not stop.is_set():
            try:
                await self.look()
            except StoreUnavailable as exc:
                log.debug("gauges.wait", error=str(exc))
                # The last figures would say that all is well: not a number is what is known now.
                _say(dict.fromkeys((*BUILT_CHANNELS, EVENTS), (math.nan, math.nan)), dict.fromkeys(PauseKind, math.nan))
                changes_waiting_seconds.set(math.nan)
            await stopped_within(stop, LOOK_EVERY_SECONDS)

    async def look(self) -> None:
        """Set every gauge to what Postgres says now. Raises StoreUnavailable."""
        if next(self._numbers) % WHOLE_LOOK_EVERY == 0:
            self._since.clear()
        async with self._database.hot() as pg:
            backlogs = {name: await self._backlog(pg, name) for name in (*BUILT_CHANNELS, EVENTS)}
            pauses = await read_pauses(pg)
            changes_waiting_seconds.set(await unnumbered_seconds(pg))
        self._since = {name: backlog.reach + RECENT for name, backlog in backlogs.items()}
        standing = Counter(pause.key.kind for pause in pauses)
        self._tell({pause.pause_id: pause for pause in pauses if pause.key.kind in OPERATORS})
        _say(
            {name: (backlog.count, backlog.oldest.total_seconds()) for name, backlog in backlogs.items()},
            {kind: standing[kind] for kind in PauseKind},
        )

    def _tell(self, paused: Mapping[int, Pause]) -> None:
        """Log what operators have paused since the last look, and what is paused no more: a command's word is gone."""
        before, self._paused = self._paused, paused
        for pause_id, pause in paused.items():
            if pause_id not in before or before[pause_id].paused_at != pause.paused_at:
                _log_pause("pause.stands", pause)
        for pause_id in before.keys() - paused.keys():
            _log_pause("pause.ended", before[pause_id])

    async def _backlog(self, pg: HotConnection, name: str) -> Backlog:
        since = self._since.get(name, EVER)
        return await (queued_events(pg, since) if name == EVENTS else due_jobs(pg, Channel(name), since))


def _log_pause(event: str, pause: Pause) -> None:
    key = pause.key
    log.info(
        event,
        kind=key.kind,
        channel=key.channel or None,
        tenant_id=key.tenant_id or None,
        event_type=key.name or None,
        by=pause.code or None,
        reason=pause.reason or None,
        since=write_instant(pause.paused_at),
        until=None if pause.until is None else write_instant(pause.until),
    )


def _say(backlogs: dict[str, tuple[float, float]], standing: dict[PauseKind, float]) -> None:
    for channel in BUILT_CHANNELS:
        count, oldest = backlogs[channel]
        due_jobs_gauge.labels(channel).set(count)
        oldest_due_seconds.labels(channel).set(oldest)
    count, oldest = backlogs[EVENTS]
    queued_events_gauge.set(count)
    oldest_queued_seconds.set(oldest)
    for kind, pauses in standing.items():
        pauses_standing.labels(kind).set(pauses)
