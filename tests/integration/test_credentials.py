"""Credentials as services find them at every attempt, and the last ones while Postgres is away."""

import asyncio
from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from shared.delivery.credentials import Credentials
from shared.errors import StoreUnavailable
from shared.ids import TenantId
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.sender_secrets import RELAY
from tests.fakes.wire import wire_to


async def test_in_an_outage_the_last_credential_stays_and_not_every_attempt_waits_for_postgres(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = urlsplit(database_url)
    async with wire_to(parts.hostname or "", parts.port or 0) as wire:
        database = Database(database_url.replace(f":{parts.port}/", f":{wire.port}/"), within=timedelta(seconds=1))
        credentials = Credentials(database, Sealer([bytes(32)]), RELAY, bytes.decode)
        assert await credentials.of(TenantId(1)) is None
        wire.freeze()
        with monkeypatch.context() as due:
            due.setattr("shared.delivery.credentials.LOOK_EVERY", timedelta())
            assert await credentials.of(TenantId(1)) is None
        # A hundred attempts that each waited for Postgres would take a hundred seconds.
        async with asyncio.timeout(30):
            assert [await credentials.of(TenantId(1)) for _ in range(100)] == [None] * 100
        with pytest.raises(StoreUnavailable):
            await credentials.of(TenantId(2))
        wire.thaw()
        await database.close()
