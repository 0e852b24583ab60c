"""Each tenant's mail goes out through its own relay, as it is stored now, and through nobody else's."""

import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from msgspec.structs import replace as changed

from services.email.connection import Connection, Steps
from services.email.pool import Pool
from services.email.provider import EmailProvider
from services.email.relays import OneRelay, StoredRelays
from shared.delivery import credentials
from shared.delivery.provider import Parcel, Progress
from shared.ids import TenantId
from shared.relay import Relay
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.pauses import PauseKey, PauseKind, block
from shared.store.sender_secrets import RELAY, bound_to, put_secret
from shared.store.tenants import create_if_missing_and_lock, create_missing_scopes, scopes_of
from shared.store.waits import pauses_of_scope
from shared.tenant import EmailSender, Mode, OwnRelay, Reference
from shared.verdict import Delivered, NoVerdict, SenderBlocked
from tests.fakes.parcels import email_parcel
from tests.fakes.smtp import SmtpSink
from tests.fakes.smtp_script import Reply

SEALER = Sealer([b"k" * 32])
ENOUGH = timedelta(seconds=20)
OWN = EmailSender("hello@acme.example", "Acme", relay=OwnRelay(Reference(env="ACME_SMTP_URL")))


@dataclass(frozen=True)
class Post:
    """The platform's relay, two others, and a provider that knows only the first by itself."""

    database: Database
    platform: SmtpSink
    first: SmtpSink
    second: SmtpSink
    provider: EmailProvider

    async def tenant(self, key: str, url: str | None = None) -> TenantId:
        """A tenant, with its own relay stored if there is a ``url``."""
        async with self.database.begin() as connection:
            tenant_id = (await create_if_missing_and_lock(connection, key, key)).tenant_id
            if url is not None:
                sealed = SEALER.seal(url.encode(), bound_to(tenant_id, RELAY))
                await put_secret(connection, tenant_id, RELAY, sealed)
        return tenant_id


def parcel_of(tenant_id: TenantId, sender: EmailSender = OWN) -> Parcel:
    parcel = email_parcel(sender)
    return changed(parcel, tenant=replace(parcel.tenant, tenant_id=tenant_id))


@pytest.fixture(autouse=True)
def _look_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "LOOK_EVERY", timedelta())


@pytest.fixture
async def post(database: Database) -> AsyncIterator[Post]:
    platform, first, second = [await SmtpSink().start() for _ in range(3)]
    relays = StoredRelays(database, SEALER, Relay("127.0.0.1", platform.port))
    provider = EmailProvider(relays, pool_size=2, attempt_timeout=ENOUGH)
    yield Post(database, platform, first, second, provider)
    await provider.close()
    for sink in (platform, first, second):
        await sink.close()


async def test_mail_goes_through_the_tenants_own_relay_and_else_through_the_platforms(post: Post) -> None:
    acme = await post.tenant("acme", f"smtp://127.0.0.1:{post.first.port}")
    zeta = await post.tenant("zeta", f"smtp://127.0.0.1:{post.second.port}")
    plain = await post.tenant("plain")
    for parcel in (parcel_of(acme), parcel_of(zeta), parcel_of(plain, replace(OWN, relay=None))):
        assert isinstance(await post.provider.send(parcel), Delivered)
    assert [len(sink.mails) for sink in (post.platform, post.first, post.second)] == [1, 1, 1]


async def test_tenants_with_the_same_relay_share_its_connections(post: Post) -> None:
    url = f"smtp://127.0.0.1:{post.first.port}"
    for key in ("acme", "zeta"):
        assert isinstance(await post.provider.send(parcel_of(await post.tenant(key, url))), Delivered)
    assert post.first.connection_count == 1


async def test_what_a_tenants_own_relay_refuses_is_its_own_matter_and_what_the_platforms_refuses_is_everybodys(
    post: Post,
) -> None:
    acme = await post.tenant("acme", f"smtp://127.0.0.1:{post.first.port}")
    for sink in (post.platform, post.first):
        sink.script.always("connect", Reply(554, "5.7.1 your address is blocked"))
    own = await post.provider.send(parcel_of(acme))
    shared = await post.provider.send(parcel_of(await post.tenant("plain"), replace(OWN, relay=None)))
    assert isinstance(own, SenderBlocked) and own.part == "sender"
    assert isinstance(shared, SenderBlocked) and shared.part == "relay"


async def test_a_tenant_with_its_own_relay_is_told_nothing_of_a_refusal_by_the_platforms(post: Post) -> None:
    acme = await post.tenant("acme", f"smtp://127.0.0.1:{post.first.port}")
    plain = await post.tenant("plain")
    async with post.database.begin() as connection:
        for tenant_id in (acme, plain):
            await create_missing_scopes(connection, tenant_id, lambda _scope_id: b"sealed")
        scopes = [(await scopes_of(connection, key))[Mode.LIVE].scope_id for key in ("acme", "plain")]
    own, platforms = PauseKey(PauseKind.SENDER, "email", acme, "mine"), PauseKey(PauseKind.RELAY, "email", name="all's")
    async with post.database.hot() as pg:
        for key in (own, platforms):
            await block(pg, key, "blocked", "554", ENOUGH, ENOUGH)
        told = [[one.name for one in await pauses_of_scope(pg, scope)] for scope in scopes]
    assert told == [["mine"], ["all's"]]


async def test_a_changed_relay_is_used_at_once_and_the_old_connections_are_closed(post: Post) -> None:
    acme = await post.tenant("acme", f"smtp://127.0.0.1:{post.first.port}")
    await post.provider.send(parcel_of(acme))
    await post.tenant("acme", f"smtp://127.0.0.1:{post.second.port}")
    assert isinstance(await post.provider.send(parcel_of(acme)), Delivered)
    assert [len(sink.mails) for sink in (post.first, post.second)] == [1, 1]
    await post.first.wait_until(lambda: post.first.open_count == 0)
    assert post.second.open_count == 1


async def test_a_connection_that_was_in_use_meanwhile_is_closed_and_not_kept(post: Post) -> None:
    pool, relay = Pool(1), Relay("127.0.0.1", post.first.port)
    connection = await Connection.open(relay, ssl.create_default_context(), Steps(Progress()))
    pool.retire()
    pool.give_back(connection)
    await post.first.wait_until(lambda: post.first.open_count == 0)


async def test_a_relay_that_is_not_stored_or_opens_under_no_key_blocks_and_is_never_replaced(post: Post) -> None:
    acme = await post.tenant("acme")
    verdict = await post.provider.send(parcel_of(acme))
    assert isinstance(verdict, SenderBlocked) and verdict.part == "relay"
    assert verdict.error == "the tenant's relay is not stored: apply its file again"
    async with post.database.begin() as connection:
        foreign = Sealer([b"o" * 32]).seal(b"smtp://127.0.0.1", bound_to(acme, RELAY))
        await put_secret(connection, acme, RELAY, foreign)
    verdict = await post.provider.send(parcel_of(acme))
    assert isinstance(verdict, SenderBlocked) and "none of the master keys" in str(verdict.error)
    await post.tenant("acme", "nonsense://hunter2@x")
    verdict = await post.provider.send(parcel_of(acme))
    assert isinstance(verdict, SenderBlocked) and "hunter2" not in str(verdict.error)
    assert post.platform.mails == []


async def test_without_postgres_a_known_relay_serves_and_an_unknown_one_is_no_verdict(post: Post) -> None:
    acme = await post.tenant("acme", f"smtp://127.0.0.1:{post.first.port}")
    zeta = await post.tenant("zeta", f"smtp://127.0.0.1:{post.second.port}")
    assert isinstance(await post.provider.send(parcel_of(acme)), Delivered)
    hurried = StoredRelays(post.database, SEALER, Relay("127.0.0.1", post.platform.port))
    provider = EmailProvider(hurried, pool_size=2, attempt_timeout=timedelta(seconds=2))
    assert isinstance(await provider.send(parcel_of(acme)), Delivered)
    async with post.database.hot() as blocker, blocker.transaction():
        await blocker.execute("LOCK TABLE sender_secrets IN ACCESS EXCLUSIVE MODE")
        assert isinstance(await provider.send(parcel_of(acme)), Delivered)
        verdict = await provider.send(parcel_of(zeta))
    assert isinstance(verdict, NoVerdict) and not verdict.handed_over
    assert verdict.code == "store_unavailable"
    await provider.close()


async def test_a_demo_sends_everything_to_its_catcher(post: Post) -> None:
    acme = await post.tenant("acme", f"smtp://127.0.0.1:{post.first.port}")
    provider = EmailProvider(OneRelay(Relay("127.0.0.1", post.platform.port)), pool_size=2, attempt_timeout=ENOUGH)
    assert isinstance(await provider.send(parcel_of(acme)), Delivered)
    assert (len(post.platform.mails), post.first.mails) == (1, [])
    await provider.close()
