"""A service account of the wrong project: its owner sees why nothing goes out, stores the right one, and all goes."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from services.cli.sandbox.serviceaccount import IssuedAccount
from services.push.accounts import StoredAccounts
from shared.ids import TenantId
from shared.sealing import KEY_BYTES, Sealer
from shared.store.database import Database
from shared.store.sender_secrets import FCM, bound_to, put_secret
from shared.store.tenants import create_if_missing_and_lock
from tests.factories import WAIT_SECONDS, until
from tests.fakes.fcm import OTHER_PROJECTS_TOKEN, FcmPeer
from tests.fakes.product import WAYBILL, clean_environment
from tests.fakes.pushing import Pushing, push_job, service
from tests.fakes.webpush import webpush_peer

SEALER = Sealer([b"k" * KEY_BYTES])
OURS, THEIRS = "ours", tuple(f"theirs-{number}" for number in range(19))
QUICK = timedelta(seconds=1)
COMMAND_SECONDS = 60


class TwoProjects(FcmPeer):
    """A Firebase with a second account: most phones are of its project, one is of the first's."""

    def __init__(self) -> None:
        super().__init__()
        self.right = IssuedAccount.make(f"{self.base_url}/token")
        self._of_right: set[str] = set()

    async def grant(self, request: web.Request) -> web.StreamResponse:
        """An access token for either account."""
        form = await request.post()
        if not self.right.signed(str(form.get("assertion", ""))):
            return await super().grant(request)
        token = f"ya29.right-{len(self._of_right)}"
        self._of_right.add(token)
        self._issued.add(token)
        return web.json_response({"access_token": token, "expires_in": 3600, "token_type": "Bearer"})

    async def take(self, request: web.Request, token: str, message: dict[str, Any]) -> web.StreamResponse:
        """Those of the second project take from its account alone; the one that is left takes from both."""
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.always(token, OTHER_PROJECTS_TOKEN if token in THEIRS and bearer not in self._of_right else None)
        return await super().take(request, token, message)


@pytest.fixture
async def pushing(database: Database) -> AsyncIterator[Pushing]:
    async with AsyncExitStack() as stack:
        peer, stop = TwoProjects(), asyncio.Event()
        running = asyncio.create_task(peer.run(stop))
        await until(lambda: running.done() or peer.serving)
        yield Pushing(database, peer, await stack.enter_async_context(webpush_peer()))
        peer.end()
        stop.set()
        await running


async def store(database: Database, account: IssuedAccount) -> None:
    """Have ``account`` be the tenant's from now on."""
    async with database.begin() as connection:
        tenant = await create_if_missing_and_lock(connection, "campus", "Campus")
        assert tenant.tenant_id == TenantId(1)
        sealed = SEALER.seal(account.text.encode(), bound_to(tenant.tenant_id, FCM))
        await put_secret(connection, tenant.tenant_id, FCM, sealed)


def told_pauses(database_url: str) -> list[dict[str, Any]]:
    """What ``waybill pauses`` says."""
    environment = clean_environment({"DATABASE_URL": database_url})
    command = [str(WAYBILL), "pauses", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True)
    listed: list[dict[str, Any]] = json.loads(done.stdout)
    return listed


async def test_nineteen_of_twenty_phones_get_it_once_as_soon_as_the_right_account_is_stored(
    pushing: Pushing, database: Database, database_url: str
) -> None:
    assert isinstance(pushing.peer, TwoProjects)
    await store(database, pushing.peer.account)
    await pushing.phone(OURS, *THEIRS)
    async with service(pushing, accounts=StoredAccounts(database, SEALER), unanswered_step=QUICK):
        await pushing.post(push_job())
        assert [one.status for one in await pushing.until_settled()] == ["PENDING"]
        assert await pushing.tokens() == {OURS, *THEIRS}
        (pause,) = await asyncio.to_thread(told_pauses, database_url)
        assert (pause["kind"], pause["channel"], pause["code"]) == ("sender", "push", "SENDER_ID_MISMATCH")
        assert str(pause["name"]).startswith("fcm ")
        await store(database, pushing.peer.right)
        async with asyncio.timeout(WAIT_SECONDS):
            while [one.status for one in await pushing.outcomes()] != ["SENT"]:
                await pushing.make_due()
                await asyncio.sleep(0.05)
    assert {token: len(pushing.peer.rung(token)) for token in (OURS, *THEIRS)} == dict.fromkeys((OURS, *THEIRS), 1)
    assert [(one.status, one.attempts, one.unknowns) for one in await pushing.outcomes()] == [("SENT", 1, 0)]
    assert await pushing.tokens() == {OURS, *THEIRS}
