"""A whole Waybill in the hands of a test that kills its processes and holds up what they say to their servers."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import httpx

from shared.ids import format_event_id, parse_event_id
from shared.ports import free_ports
from shared.store.database import Database
from shared.store.events import insert_if_new
from tests.factories import new_event
from tests.fakes.installation import SERVICES, Installation, booking, prepared
from tests.fakes.ledger import ledger_mistakes
from tests.fakes.product import Run, eventually
from tests.fakes.somebody import Somebody
from tests.fakes.wire import Wire, wire_to

SENDERS = ("email", "push", "inapp")
ONE_EACH = dict.fromkeys(SENDERS, 1)
ONCE = {sender: [("delivered", False)] for sender in SENDERS}
"""One attempt on each channel, and nothing that may be a duplicate."""
AGAIN_AFTER = "2s"
SETTINGS = {
    # Long: on a busy machine, too, what a test holds up is not to be given up before the test says so.
    "DATABASE_TIMEOUT": "15s",
    "EMAIL_ATTEMPT_TIMEOUT": "35s",
    "EMAIL_LEASE": "90s",
    "PUSH_ATTEMPT_TIMEOUT": "10s",
    "PUSH_LEASE": "30s",
    "LEASE_MARGIN": "5s",
    # Short: what is lost is found within seconds instead of minutes.
    "ANNOUNCE_AGAIN_AFTER": AGAIN_AFTER,
    "SWEEP_EVERY": "1s",
    "POLL_IDLE": "1s",
    "UNANSWERED_BACKOFF": "1s",
    "LOG_FORMAT": "json",
}


@dataclass(frozen=True)
class Wires:
    """Where a test can hold up what a process says to a server, or hears from it."""

    ingest_to_postgres: Wire
    ingest_to_broker: Wire
    router_to_broker: Wire

    async def restore(self) -> None:
        """Let everything through."""
        for wire in (self.ingest_to_postgres, self.ingest_to_broker, self.router_to_broker):
            wire.thaw()
            if wire.is_cut:
                await wire.mend()


@dataclass(frozen=True)
class Urls:
    """The servers themselves, past the wires."""

    postgres: str
    broker: str


class Wired:
    """A running installation. Processes stand under the name of their service; ``email-2`` is a replica."""

    def __init__(self, installation: Installation, wires: Wires, urls: Urls, database: Database) -> None:
        """Nothing is started yet."""
        self.installation = installation
        self.wires = wires
        self.urls = urls
        self.database = database
        installation.own = {
            "ingest": {
                "DATABASE_URL": through(wires.ingest_to_postgres, urls.postgres),
                "AMQP_URL": through(wires.ingest_to_broker, urls.broker),
            },
            "router": {"AMQP_URL": through(wires.router_to_broker, urls.broker)},
            "inapp-2": {"INBOX_PORT": str(free_ports(1)[0])},
        }
        self._began_with: dict[str, Run] = {}

    def process(self, name: str) -> Run:
        """The process of this name."""
        return self.installation.processes[name]

    async def start(self, *names: str) -> None:
        """Start processes (again) and wait until they are ready."""
        await self.installation.start(*names)

    async def somebody(self, name: str) -> Somebody:
        """A recipient whose phone is registered."""
        one = Somebody(name, self.installation, self.database)
        await self.installation.phone(one.phone, name)
        return one

    async def sent(self, event_id: str) -> dict[str, list[tuple[str, bool]]]:
        """Once the event is sent, its channels: the verdict of each attempt, and whether it may be a duplicate."""
        jobs = (await self.installation.until_outcome(event_id))["jobs"]
        assert len({job["channel"] for job in jobs}) == len(jobs)
        return {
            job["channel"]: [(attempt["verdict"], attempt["possible_duplicate"]) for attempt in job["attempts"]]
            for job in jobs
        }

    async def read(self, event_id: str, what: str) -> Any:
        """One column of the event's row."""
        async with self.database.hot() as pg:
            return await pg.fetchval(f"SELECT {what} FROM events WHERE event_id = $1", parse_event_id(event_id))

    async def job_ids(self, event_id: str, status: str | None = None) -> list[int]:
        """The numbers of the event's jobs, of those in ``status`` where it is given."""
        async with self.database.hot() as pg:
            rows = await pg.fetch(
                "SELECT job_id FROM outgoing WHERE event_id = $1 AND status = coalesce($2, status) ORDER BY job_id",
                parse_event_id(event_id),
                status,
            )
        return [row["job_id"] for row in rows]

    async def tried(self, event_id: str, channel: str) -> dict[str, int]:
        """How the event's job on ``channel`` counts its rounds, {} when there is none yet."""
        async with self.database.hot() as pg:
            row = await pg.fetchrow(
                "SELECT attempts, unanswered, unknowns FROM outgoing WHERE event_id = $1 AND channel = $2",
                parse_event_id(event_id),
                channel,
            )
        return dict(row or {})

    @asynccontextmanager
    async def uncounted(self, channel: str, status: str) -> AsyncIterator[None]:
        """Whoever counts a job of ``channel`` in ``status`` hangs meanwhile, in the middle of its transaction."""
        connection = await asyncpg.connect(self.urls.postgres, timeout=30)
        try:
            await connection.execute("BEGIN")
            await connection.execute(
                """
                INSERT INTO ledger (scope_id, day, channel, status, reason, n)
                SELECT scope_id, (now() AT TIME ZONE 'UTC')::date, $1, $2, '', 0 FROM scopes
                ON CONFLICT (scope_id, day, channel, status, reason) DO UPDATE SET n = ledger.n
                """,
                channel,
                status,
            )
            yield
        finally:
            await connection.close(timeout=10)

    async def swept_past(self, event_id: str) -> None:
        """Return once a sweep has looked at events as old as this one."""

        async def old_enough() -> bool:
            return bool(await self.read(event_id, f"now() - announced_at > interval '{AGAIN_AFTER}'"))

        await eventually(old_enough)
        # Announced in vain an hour ago: it is announced again by the very statement that must leave the other alone.
        lost = booking("")
        decoy = new_event(
            scope_id=await self.read(event_id, "scope_id"),
            recipient=json.dumps(lost["recipient"]),
            payload=json.dumps(lost["payload"]),
        )
        async with self.database.hot() as pg:
            await insert_if_new(pg, [decoy], datetime.now(UTC) - timedelta(hours=1))

        async def announced_again() -> bool:
            return bool(await self.read(format_event_id(decoy.event_id), "announce_count") > 0)

        await eventually(announced_again)

    async def wakes_received(self) -> dict[str, str]:
        """What the senders say of wakes, by the sender."""
        async with httpx.AsyncClient(timeout=15) as client:
            pages = {name: await client.get(f"{self.process(name).admin_url}/metrics") for name in SENDERS}
        return {
            name: "\n".join(line for line in page.text.splitlines() if line.startswith("waybill_wakes_total"))
            for name, page in pages.items()
        }

    async def until_oldest_queued(self, wanted: Callable[[float], bool]) -> None:
        """Return once ingest says of the oldest event that nobody routed that it has waited so many seconds."""

        async def told() -> bool:
            async with httpx.AsyncClient(timeout=15) as client:
                page = await client.get(f"{self.process('ingest').admin_url}/metrics")
            lines = (line.split() for line in page.text.splitlines())
            (seconds,) = (float(line[1]) for line in lines if line[:1] == ["waybill_oldest_queued_seconds"])
            return wanted(seconds)

        await eventually(told, 60)

    async def hanging(self, service: str, count: int = 1) -> None:
        """Return once ``count`` statements of the service's processes wait for a lock."""

        async def waits() -> bool:
            async with self.database.hot() as pg:
                waiting = await pg.fetchval(
                    """
                    SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND application_name = $1 AND wait_event_type = 'Lock'
                    """,
                    f"waybill {service}",
                )
            return bool(waiting == count)

        await eventually(waits)

    def begin(self) -> None:
        """Remember which processes run when a test begins."""
        self._began_with = dict(self.installation.processes)

    async def harmed_none_but(self, *names: str) -> None:
        """AssertionError when any other process has ended since the test began, or the ledger is wrong."""
        processes = [*self._began_with.items(), *self.installation.processes.items()]
        ended = {name for name, process in processes if process.exit_code() is not None}
        assert ended == set(names)
        assert await ledger_mistakes(self.database) == []

    async def bring_back(self) -> None:
        """Make good whatever a test that failed has left behind."""
        await self.wires.restore()
        self.installation.sink.script.forget()
        self.installation.fcm.forget()
        for name, process in tuple(self.installation.processes.items()):
            if name not in SERVICES:
                process.clean_up()
                del self.installation.processes[name]
            elif process.exit_code() is None:
                process.thaw()
            else:
                await self.start(name)


def through(wire: Wire, url: str) -> str:
    """``url`` by way of ``wire``."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{wire.port}").geturl()


@asynccontextmanager
async def wired_installation(
    database_url: str, amqp_url: str, settings: Mapping[str, str], folder: Path
) -> AsyncIterator[Wired]:
    """An installation of every service. ``settings`` go before ours; outputs go to ``folder``."""
    async with AsyncExitStack() as stack:

        async def wire(url: str) -> Wire:
            parts = urlsplit(url)
            return await stack.enter_async_context(wire_to(parts.hostname or "", parts.port or 0))

        database = Database(database_url, pool_size=4, name="test")
        stack.push_async_callback(database.close)
        wires = Wires(await wire(database_url), await wire(amqp_url), await wire(amqp_url))
        installation = await stack.enter_async_context(prepared(database_url, amqp_url, folder))
        installation.settings |= {**SETTINGS, **settings}
        wired = Wired(installation, wires, Urls(database_url, amqp_url), database)
        await wired.start(*SERVICES)
        yield wired
