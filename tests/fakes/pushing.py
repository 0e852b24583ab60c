"""The push service on a database of the test's own, its peers on loopback, with jobs, phones and browsers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from services.push.accounts import OneAccount, ServiceAccounts
from services.push.app import build
from services.push.settings import PushSettings
from shared.broker.local import LocalBus
from shared.channel import Channel
from shared.content import PushContent
from shared.delivery.worker import KnownTenants
from shared.ids import EventId, ScopeId, TenantId, new_event_id
from shared.lifecycle import Part, run_parts
from shared.retry import RetryPolicy
from shared.serviceaccount import parse_service_account
from shared.store.content import encode_content
from shared.store.database import Database
from shared.store.outgoing import NewJob, create_if_missing
from shared.store.targets import StoredTarget, list_targets, register
from shared.vapid import VapidKey, new_vapid_key
from tests.factories import WAIT_SECONDS, create_jobs, new_job
from tests.fakes.fcm import FcmPeer, fcm_peer
from tests.fakes.tenants import OneTenant
from tests.fakes.webpush import Browser, WebPushPeer, webpush_peer

CONTENT = PushContent("Linear algebra is booked", "Tue 1 Dec, 15:00 with Ada", "en", data={"booking_id": "bk_42"})
SCOPE = ScopeId(1)


@dataclass(frozen=True)
class Outcome:
    """A job as it is in the table."""

    status: str
    reason: str
    attempts: int
    unanswered: int
    unknowns: int


@dataclass(frozen=True)
class Attempt:
    """One row of ``attempts``, by the token that the target had."""

    token: str
    claim_seq: int
    verdict: str
    reason: str
    possible_duplicate: bool


def push_job(
    event_id: EventId | None = None,
    *,
    recipient_id: str = "bob",
    content: PushContent = CONTENT,
    policy: RetryPolicy | None = None,
    **terms: Any,
) -> NewJob:
    """A PENDING push job, due now."""
    job = new_job(channel=Channel.PUSH, event_id=event_id, recipient_id=recipient_id, policy=policy, **terms)
    return replace(job, body=encode_content(content))


class OneKey:
    """The same VAPID key for every tenant; None: nobody has one."""

    def __init__(self, key: VapidKey | None) -> None:
        self.key = key

    async def of(self, _tenant_id: TenantId) -> VapidKey | None:
        """That key."""
        return self.key


class Pushing:
    """The service with its peers, Firebase and a browsers' push service.

    The names of targets are kept, so that forgotten ones still have one: a phone's is its token.
    """

    def __init__(self, database: Database, peer: FcmPeer, web: WebPushPeer) -> None:
        self.database = database
        self.peer = peer
        self.web = web
        self.vapid = OneKey(new_vapid_key())
        self._tokens: dict[int, str] = {0: ""}

    async def phone(self, *tokens: str, recipient_id: str = "bob", scope_id: ScopeId = SCOPE) -> list[StoredTarget]:
        """Targets of one recipient, registered in this order."""
        made = []
        for token in tokens:
            async with self.database.begin() as connection:
                target = (await register(connection, scope_id, recipient_id, "fcm", token)).target
            self._tokens[target.target_id] = token
            made.append(target)
        return made

    async def browser(self, *names: str, recipient_id: str = "bob", scope_id: ScopeId = SCOPE) -> list[Browser]:
        """Browsers of one recipient, subscribed with the tenant's key and registered in this order."""
        made = []
        for name in names:
            browser = self.web.browsers.get(name) or self.web.subscribe(name)
            browser.sender = self.vapid.key.public if self.vapid.key else None
            async with self.database.begin() as connection:
                registered = await register(
                    connection, scope_id, recipient_id, "webpush", browser.endpoint, "web", keys=browser.keys
                )
            self._tokens[registered.target.target_id] = name
            made.append(browser)
        return made

    async def post(self, *jobs: NewJob) -> None:
        """Jobs into the table; the worker's poll finds them."""
        await create_jobs(self.database, jobs)

    async def post_with_entry(self, **changes: Any) -> EventId:
        """An event whose in-app job is as new as its push job."""
        event_id = new_event_id()
        async with self.database.hot() as pg, pg.transaction():
            await create_if_missing(
                pg, [new_job(channel=Channel.INAPP, event_id=event_id), push_job(event_id, **changes)]
            )
        return event_id

    async def tokens(self, recipient_id: str = "bob") -> set[str]:
        """The names of the targets still registered for a recipient."""
        async with self.database.begin() as connection:
            return {self._tokens[target.target_id] for target in await list_targets(connection, SCOPE, recipient_id)}

    async def outcomes(self, channel: Channel = Channel.PUSH) -> list[Outcome]:
        """The jobs of ``channel``, oldest first."""
        async with self.database.hot() as pg:
            rows = await pg.fetch(
                "SELECT status, reason, attempts, unanswered, unknowns FROM outgoing"
                " WHERE channel = $1 ORDER BY job_id",
                channel,
            )
        return [Outcome(*row) for row in rows]

    async def attempts(self) -> list[Attempt]:
        """Every attempt on a target, in the order of rounds and targets."""
        async with self.database.hot() as pg:
            rows = await pg.fetch(
                "SELECT a.target_id, a.claim_seq, a.verdict, a.reason, a.possible_duplicate FROM attempts a"
                " JOIN outgoing o USING (job_id) WHERE o.channel = 'push' ORDER BY a.job_id, a.claim_seq, a.target_id"
            )
        return [Attempt(self._tokens[row[0]], *tuple(row)[1:]) for row in rows]

    async def until_settled(self, count: int = 1, rounds: int = 1) -> list[Outcome]:
        """The push jobs, once ``count`` of them have reported at least ``rounds`` claims."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                async with self.database.hot() as pg:
                    done = await pg.fetchval(
                        "SELECT count(*) FROM outgoing WHERE channel = 'push' AND reported_seq >= $1", rounds
                    )
                if done >= count:
                    return await self.outcomes()
                await asyncio.sleep(0.02)

    async def make_due(self) -> None:
        """Let every wait be over."""
        async with self.database.hot() as pg:
            await pg.execute("UPDATE outgoing SET due_at = now() WHERE status = 'PENDING'")


@asynccontextmanager
async def service(
    pushing: Pushing,
    *,
    name: str = "worker",
    accounts: ServiceAccounts | None = None,
    tenants: KnownTenants | None = None,
    **settings: Any,
) -> AsyncIterator[asyncio.Event]:
    """A running push service; the event stops it."""
    accounts = accounts or OneAccount(parse_service_account(pushing.peer.account.text.encode()))
    changed: dict[str, Any] = {
        "lease": timedelta(seconds=30),
        "attempt_timeout": timedelta(seconds=10),
        "lease_margin": timedelta(seconds=1),
        "poll_busy": timedelta(milliseconds=100),
        "poll_idle": timedelta(milliseconds=100),
        "fcm_base_url": pushing.peer.base_url,
    } | settings
    parts: Sequence[Part] = build(
        PushSettings(**changed),
        pushing.database,
        LocalBus(),
        tenants or OneTenant(),
        accounts,
        pushing.vapid,
        pushing.web.rules,
        worker_name=name,
        hearts={},
    )
    stop = asyncio.Event()
    running = asyncio.create_task(run_parts(parts, stop))
    try:
        yield stop
    finally:
        stop.set()
        async with asyncio.timeout(WAIT_SECONDS):
            await running


@asynccontextmanager
async def pushing_on(database: Database) -> AsyncIterator[Pushing]:
    """The peers and the means to push to them; no service runs yet."""
    async with AsyncExitStack() as stack:
        fcm, web = await stack.enter_async_context(fcm_peer()), await stack.enter_async_context(webpush_peer())
        yield Pushing(database, fcm, web)
