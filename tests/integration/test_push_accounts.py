"""Service accounts as tenant files bring them: sealed for their tenant, followed within seconds, kept in an outage."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from services.cli.sandbox.serviceaccount import PROJECT, IssuedAccount
from services.push.accounts import StoredAccounts
from shared.delivery import credentials
from shared.errors import AccountUnusable, StoreUnavailable
from shared.ids import TenantId
from shared.sealing import KEY_BYTES, Sealer
from shared.store.database import Database
from shared.store.sender_secrets import FCM, bound_to, delete_secret, put_secret
from shared.store.tenants import create_if_missing_and_lock

SEALER = Sealer([b"k" * KEY_BYTES])


@pytest.fixture(scope="module")
def issued() -> IssuedAccount:
    return IssuedAccount.make("http://127.0.0.1:9/token")


@pytest.fixture
async def tenant_id(database: Database) -> AsyncIterator[TenantId]:
    async with database.begin() as connection:
        tenant = await create_if_missing_and_lock(connection, "campus", "Campus")
    yield tenant.tenant_id  # noqa: PT022 - a fixture like its neighbours


@pytest.fixture(autouse=True)
def _look_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "LOOK_EVERY", credentials.LOOK_EVERY * 0)


async def keep(database: Database, tenant_id: TenantId, text: str, bound: str | None = None) -> None:
    sealed = SEALER.seal(text.encode(), bound or bound_to(tenant_id, FCM))
    async with database.begin() as connection:
        await put_secret(connection, tenant_id, FCM, sealed)


async def test_an_account_is_found_replaced_and_taken_away(
    database: Database, tenant_id: TenantId, issued: IssuedAccount
) -> None:
    stored = StoredAccounts(database, SEALER)
    assert await stored.of(tenant_id) is None
    await keep(database, tenant_id, issued.text)
    first = await stored.of(tenant_id)
    assert first is not None
    assert (first.project_id, first.token_uri) == (PROJECT, issued.token_uri)
    assert await stored.of(tenant_id) is first
    await keep(database, tenant_id, issued.text.replace(PROJECT, "another"))
    second = await stored.of(tenant_id)
    assert second is not None
    assert second.project_id == "another"
    assert second.fingerprint != first.fingerprint
    async with database.begin() as connection:
        assert await delete_secret(connection, tenant_id, FCM)
    assert await stored.of(tenant_id) is None


async def test_the_private_key_is_neither_stored_nor_shown_in_the_clear(
    database: Database, tenant_id: TenantId, issued: IssuedAccount
) -> None:
    await keep(database, tenant_id, issued.text)
    async with database.hot() as pg:
        sealed = await pg.fetchval("SELECT sealed FROM sender_secrets")
    assert b"PRIVATE KEY" not in sealed
    assert "PRIVATE KEY" not in repr(await StoredAccounts(database, SEALER).of(tenant_id))


async def test_an_account_sealed_for_another_tenant_or_under_another_key_is_unusable(
    database: Database, tenant_id: TenantId, issued: IssuedAccount
) -> None:
    await keep(database, tenant_id, issued.text, bound_to(TenantId(tenant_id + 1), FCM))
    with pytest.raises(AccountUnusable):
        await StoredAccounts(database, SEALER).of(tenant_id)
    await keep(database, tenant_id, issued.text)
    with pytest.raises(AccountUnusable):
        await StoredAccounts(database, Sealer([b"o" * KEY_BYTES])).of(tenant_id)
    assert await StoredAccounts(database, SEALER).of(tenant_id) is not None


async def test_in_an_outage_the_last_account_stays_and_an_unknown_one_is_not_guessed(
    database: Database, database_url: str, tenant_id: TenantId, issued: IssuedAccount
) -> None:
    await keep(database, tenant_id, issued.text)
    impatient = Database(database_url, pool_size=2, within=timedelta(seconds=1))
    # Connecting for the first time takes long on a busy machine, and is not what this is about.
    async with impatient.hot(timedelta(seconds=30)) as pg:
        await pg.fetchval("SELECT 1")
    stored = StoredAccounts(impatient, SEALER)
    known = await stored.of(tenant_id)
    assert known is not None
    async with database.hot() as blocker, blocker.transaction():
        await blocker.execute("LOCK TABLE sender_secrets IN ACCESS EXCLUSIVE MODE")
        assert await stored.of(tenant_id) is known
        with pytest.raises(StoreUnavailable):
            await StoredAccounts(impatient, SEALER).of(tenant_id)
    assert await stored.of(tenant_id) is known
    await impatient.close()
