"""The crash storm: a whole installation under traffic while one process after the other is killed -9.

Products post, and post again with the same key until they have a 202. When it is over, the database, what the peers
took and the ledger are held against what was accepted.
"""

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from shared.ids import EventId, parse_event_id
from shared.ports import free_ports
from shared.store.database import Database
from tests.fakes.installation import SERVICES, Installation, prepared
from tests.fakes.product import eventually
from tests.prove.wreckage import Findings, judge

SETTINGS = {
    "EMAIL_ATTEMPT_TIMEOUT": "4s",
    "EMAIL_LEASE": "10s",
    "PUSH_ATTEMPT_TIMEOUT": "4s",
    "PUSH_LEASE": "10s",
    "LEASE_MARGIN": "1s",
    "DATABASE_TIMEOUT": "10s",
}
"""Short, so that what the dead held is soon free; long enough for a machine that starts processes all the time."""
REPLICAS = ("router-2", "email-2", "push-2", "inapp-2")
RECIPIENT_COUNT = 20
AGAIN_AFTER_SECONDS = 0.3
STUBBORN_SECONDS = 120.0
"""How long a product goes on posting; longer than any process takes to come back."""
FINAL_SECONDS = 240.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Weather:
    """How hard it blows: ``pace`` events a second for ``seconds``, a kill every ``kill_every`` seconds."""

    seconds: float = 60.0
    pace: float = 50.0
    kill_every: float = 5.0
    processes: Sequence[str] = (*SERVICES, *REPLICAS)


@dataclass
class Log:
    """What the products and the killer saw. ``given_up``: events that nobody ever got a 202 for."""

    accepted: set[EventId] = field(default_factory=set)
    event_count: int = 0
    repeats: int = 0
    given_up: int = 0
    kills: int = 0


@dataclass(frozen=True)
class Survived:
    """What a storm came to."""

    log: Log
    findings: Findings
    seconds: float


async def storm(database_url: str, amqp_url: str, folder: Path, weather: Weather, say: Say) -> Survived:
    """One storm on a migrated database and a broker of its own; outputs of the processes go to ``folder``."""
    began, log = time.monotonic(), Log()
    async with prepared(database_url, amqp_url, folder) as installation:
        installation.settings |= SETTINGS
        installation.own["inapp-2"] = {"INBOX_PORT": str(free_ports(1)[0])}
        await installation.start(*weather.processes)
        for number in range(RECIPIENT_COUNT):
            await installation.phone(_phone(number), _recipient_id(number))
        say("every process runs; the storm begins")
        await _blow(installation, weather, log, say)
        say(f"{len(log.accepted)} of {log.event_count} events accepted, {log.kills} kills; waiting for the last result")
        database = Database(database_url, pool_size=2)
        try:
            await until_final(database)
            findings = await judge(database, installation, log.accepted)
        finally:
            await database.close()
    return Survived(log, findings, time.monotonic() - began)


async def _blow(installation: Installation, weather: Weather, log: Log, say: Say) -> None:
    over = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        killing = group.create_task(_kill_in_turn(installation, weather, log, over, say))
        begins = time.monotonic()
        for number in range(int(weather.seconds * weather.pace)):
            await asyncio.sleep(max(begins + number / weather.pace - time.monotonic(), 0))
            group.create_task(_post_until_accepted(installation, number, log))
        over.set()
        await killing


async def _post_until_accepted(installation: Installation, number: int, log: Log) -> None:
    """What a product does: the same key until there is a 202."""
    log.event_count += 1
    recipient_id = _recipient_id(number)
    recipient = {"id": recipient_id, "name": "Bob", "email": f"{recipient_id}@example.com", "locale": "en"}
    deadline = time.monotonic() + STUBBORN_SECONDS
    while time.monotonic() < deadline:
        try:
            answer = await installation.post(key=f"storm-{number}", recipient=recipient)
        except httpx.TransportError:
            answer = None
        if answer is not None and answer.status_code == 202:
            event_id = parse_event_id(answer.json()["id"])
            assert event_id is not None
            log.accepted.add(event_id)
            return
        assert answer is None or answer.status_code >= 500, answer.text
        log.repeats += 1
        await asyncio.sleep(AGAIN_AFTER_SECONDS)
    log.given_up += 1


async def _kill_in_turn(installation: Installation, weather: Weather, log: Log, over: asyncio.Event, say: Say) -> None:
    """Kill one process after the other, each started again at once; afterwards all of them run."""
    starting: dict[str, asyncio.Task[None]] = {}
    for name in itertools.cycle(weather.processes):
        if await _is_set_within(over, weather.kill_every):
            break
        if name in starting:
            await starting[name]  # one that has not come up yet would be killed for nothing
        await asyncio.to_thread(installation.processes[name].kill)
        log.kills += 1
        say(f"killed {name}")
        starting[name] = asyncio.create_task(installation.start(name))
    await asyncio.gather(*starting.values())


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def until_final(database: Database, seconds: float = FINAL_SECONDS) -> None:
    """Return once nothing is under way any more, or after long enough: what is open then counts as lost."""

    async def nothing_is_open() -> bool:
        async with database.hot() as pg:
            open_count = await pg.fetchval(
                """
                SELECT (SELECT count(*) FROM events WHERE status IN ('SCHEDULED', 'QUEUED'))
                     + (SELECT count(*) FROM outgoing WHERE status = 'PENDING')
                """
            )
        return bool(open_count == 0)

    try:
        await eventually(nothing_is_open, seconds, pause=0.5)
    except AssertionError:
        return


def _recipient_id(number: int) -> str:
    return f"somebody-{number % RECIPIENT_COUNT}"


def _phone(number: int) -> str:
    return f"phone-of-{_recipient_id(number)}"
