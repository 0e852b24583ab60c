"""A whole Waybill as a customer runs it: one process per service, on a database and a broker of the test's own."""

import asyncio
import itertools
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from shared.ports import free_ports
from shared.sealing import new_master_key
from tests.fakes.fcm import FcmPeer, fcm_peer
from tests.fakes.product import WAYBILL, Run, clean_environment, eventually
from tests.fakes.smtp import SmtpSink

CAMPUS = Path(__file__).resolve().parents[2] / "examples" / "campus" / "campus.yaml"
SERVICES = ("ingest", "router", "email", "push", "inapp")
PHONE = "bobs-phone"
COMMAND_SECONDS = 60

SHORT = {
    "EMAIL_LEASE": "4s",
    "EMAIL_ATTEMPT_TIMEOUT": "1s",
    "PUSH_LEASE": "8s",
    "PUSH_ATTEMPT_TIMEOUT": "3s",
    "LEASE_MARGIN": "1s",
    "ANNOUNCE_AGAIN_AFTER": "2s",
    "SWEEP_EVERY": "1s",
    "POLL_IDLE": "1s",
    "UNANSWERED_BACKOFF": "2s",
    "LOG_FORMAT": "json",
}
"""The settings under which a crash is made good within seconds instead of minutes."""

PATIENT = {
    "EMAIL_LEASE": "45s",
    "EMAIL_ATTEMPT_TIMEOUT": "15s",
    "PUSH_LEASE": "45s",
    "PUSH_ATTEMPT_TIMEOUT": "15s",
}
"""On a busy machine an attempt of a second may be cut off after the hand-over, and is then rightly made again."""


class Installation:
    """The running processes by the name of their service, and a client with a live key of ``campus``.

    Mail goes to ``sink``, pushes go to ``fcm``, which issued the campus's service account.
    """

    def __init__(self, database_url: str, amqp_url: str | None, sink: SmtpSink, fcm: FcmPeer, folder: Path) -> None:
        """Nothing is started yet; outputs go to ``folder``."""
        api, inbox = free_ports(2)
        self.settings = SHORT | {
            "DATABASE_URL": database_url,
            "MASTER_KEYS": new_master_key(),
            "SMTP_URL": f"smtp://127.0.0.1:{sink.port}",
            "FCM_BASE_URL": fcm.base_url,
            "BIND": "127.0.0.1",
            "PORT": str(api),
            "INBOX_PORT": str(inbox),
        }
        if amqp_url is not None:
            self.settings["AMQP_URL"] = amqp_url
        self.own: dict[str, dict[str, str]] = {}
        """Settings that only the process of this name has."""
        self.credentials = {"CAMPUS_FCM_ACCOUNT": fcm.account.text}
        self.sink = sink
        self.fcm = fcm
        self.processes: dict[str, Run] = {}
        self.client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{api}", timeout=15)
        self.inbox = httpx.AsyncClient(base_url=f"http://127.0.0.1:{inbox}", timeout=15)
        self._folder = folder
        self._numbers = itertools.count(1)

    async def command(self, *arguments: str) -> str:
        """What ``waybill`` printed when run with ``arguments``; AssertionError when it failed."""
        done = await asyncio.to_thread(self._run, arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def _run(self, arguments: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
        environment = clean_environment(self.settings) | self.credentials
        return subprocess.run(
            [WAYBILL, *arguments], env=environment, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        )

    async def set_up(self) -> None:
        """The schema, the tenant, and a key for the client."""
        await self.command("apply", str(CAMPUS))
        key = json.loads(await self.command("key", "create", "campus", "--json"))["key"]
        self.client.headers["Authorization"] = f"Bearer {key}"
        token = json.loads(await self.command("key", "subscriber", "campus", "--recipient", "bob", "--json"))["token"]
        self.inbox.headers["Authorization"] = f"Bearer {token}"

    async def start(self, *names: str) -> None:
        """Start services and wait until they are ready; ``email-2`` is one more process of email."""
        for name in names:
            output, settings = self._folder / f"{name}.log", self.settings | self.own.get(name, {})
            self.processes[name] = Run(name.partition("-")[0], output, settings)
        await asyncio.gather(*(self.processes[name].ready() for name in names))

    async def phone(self, token: str, recipient_id: str = "bob") -> None:
        """Have a phone of the recipient's registered."""
        answer = await self.client.put(f"/api/v1/recipients/{recipient_id}/push-targets", json={"token": token})
        assert answer.status_code == 200, answer.text

    async def post(self, key: str | None = None, **changes: Any) -> httpx.Response:
        """The answer to one booking confirmed for bob."""
        return await self.client.post("/api/v1/events", json=booking(key or f"key-{next(self._numbers)}") | changes)

    async def event(self, event_id: str) -> dict[str, Any]:
        """The event as the API explains it."""
        answer = await self.client.get(f"/api/v1/events/{event_id}")
        assert answer.status_code == 200, answer.text
        explained: dict[str, Any] = answer.json()
        return explained

    async def until_outcome(self, event_id: str, outcome: str = "sent", seconds: float = 40) -> dict[str, Any]:
        """The event, once its outcome is ``outcome``."""

        async def reached() -> dict[str, Any] | None:
            explained = await self.event(event_id)
            return explained if explained["outcome"] == outcome else None

        return await eventually(reached, seconds)

    async def close(self) -> None:
        """End every process."""
        for process in self.processes.values():
            process.clean_up()
        await self.client.aclose()
        await self.inbox.aclose()


def booking(key: str) -> dict[str, Any]:
    """The body of a booking confirmed for bob."""
    return {
        "event_type": "booking_confirmed",
        "idempotency_key": key,
        "recipient": {"id": "bob", "name": "Bob", "email": "bob@example.com", "locale": "en"},
        "payload": {
            "booking_id": "bk_42",
            "course": "Linear algebra",
            "tutor": "Ada",
            "starts_at": "2026-12-01T14:00:00Z",
            "price": {"amount": "25.00", "currency": "EUR"},
        },
    }


@asynccontextmanager
async def prepared(database_url: str, amqp_url: str | None, folder: Path) -> AsyncIterator[Installation]:
    """An installation that is set up, with an SMTP server and a Firebase of its own; nothing of it runs yet.

    Everything is ended afterwards.
    """
    async with AsyncExitStack() as stack:
        sink = await SmtpSink().start()
        stack.push_async_callback(sink.close)
        fcm = await stack.enter_async_context(fcm_peer())
        installation = Installation(database_url, amqp_url, sink, fcm, folder)
        stack.push_async_callback(installation.close)
        await installation.set_up()
        yield installation


@asynccontextmanager
async def installed(
    database_url: str, amqp_url: str | None, folder: Path, *services: str
) -> AsyncIterator[Installation]:
    """An installation with ``services`` running and a phone of bob's; nobody dies in it, so that it may be patient."""
    async with prepared(database_url, amqp_url, folder) as installation:
        installation.settings |= PATIENT
        await installation.start(*services)
        await installation.phone(PHONE)
        yield installation
