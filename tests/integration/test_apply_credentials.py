"""Credentials of a tenant file: read when it is applied, sealed for the tenant, compared, and never shown."""

from datetime import timedelta
from pathlib import Path

import pytest

from services.cli.sandbox.serviceaccount import PROJECT, IssuedAccount
from shared.channel import Channel
from shared.errors import SealError, TenantFileError
from shared.ids import TenantId
from shared.sealing import Sealer
from shared.store.database import Database
from shared.store.pauses import PauseKey, PauseKind, block, read_pauses
from shared.store.sender_secrets import FCM, RELAY, VAPID, bound_to, secrets_of_tenant
from shared.store.tenants import find_tenant
from shared.tenantfile.apply import Applied, apply
from shared.vapid import new_vapid_key

SEALER = Sealer([b"k" * 32])
MINUTE = timedelta(minutes=1)
URL = "smtps://acme:hunter2@relay.example"
EMAIL = "email: {from: Acme <hello@acme.example>, relay: {url: {env: ACME_SMTP_URL}}}"
BROWSERS = "push: {webpush: {contact: 'mailto:ops@acme.example', vapid_key: {env: ACME_VAPID}}}"
PUSH = "push: {fcm: {service_account: {file: secrets/acme.json}}}"


@pytest.fixture(scope="module")
def issued() -> IssuedAccount:
    return IssuedAccount.make("http://127.0.0.1:9/token")


@pytest.fixture
def folder(tmp_path: Path, issued: IssuedAccount) -> Path:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "acme.json").write_text(issued.text + "\n")
    return tmp_path


def write(folder: Path, *senders: str) -> Path:
    """A tenant file with these senders."""
    path = folder / "acme.yaml"
    block = f"senders: {{{', '.join(senders)}}}\n" if senders else ""
    path.write_text(f"waybill: 1\ntenant: acme\nname: Acme\n{block}event_types: {{}}\n")
    return path


async def stored(database: Database) -> dict[str, bytes]:
    """What is stored for acme, opened."""
    async with database.begin() as connection:
        tenant = await find_tenant(connection, "acme")
        assert tenant is not None
        sealed = await secrets_of_tenant(connection, tenant.tenant_id)
    for kind, secret in sealed.items():
        with pytest.raises(SealError):
            SEALER.open(secret, bound_to(TenantId(tenant.tenant_id + 1), kind))
    return {kind: SEALER.open(secret, bound_to(tenant.tenant_id, kind)) for kind, secret in sealed.items()}


async def test_they_are_stored_sealed_and_applying_twice_changes_nothing(
    database: Database, folder: Path, issued: IssuedAccount
) -> None:
    path, environ = write(folder, EMAIL, PUSH), {"ACME_SMTP_URL": URL}
    first = await apply(database, SEALER, path, environ=environ)
    assert first.diff == ["+ tenant acme (Acme), event types: none"]
    assert await stored(database) == {RELAY: URL.encode(), FCM: issued.text.encode()}
    async with database.hot() as pg:
        for column in await pg.fetch("SELECT sealed FROM sender_secrets"):
            assert b"hunter2" not in column["sealed"] and b"PRIVATE KEY" not in column["sealed"]
        model = await pg.fetchval("SELECT model::text || source FROM tenant_files")
    assert "hunter2" not in model and "PRIVATE KEY" not in model
    again = await apply(database, SEALER, path, environ=environ)
    assert (again.version, again.changed, again.diff) == (1, False, [])


async def test_a_changed_credential_is_said_to_have_changed_and_nothing_more(database: Database, folder: Path) -> None:
    path = write(folder, EMAIL, PUSH)
    await apply(database, SEALER, path, environ={"ACME_SMTP_URL": URL})
    other = {"ACME_SMTP_URL": URL.replace("hunter2", "swordfish")}
    checked = await apply(database, SEALER, path, environ=other, check_only=True)
    assert (checked.changed, checked.diff) == (True, ["~ senders.email.relay.url: changed"])
    assert (await stored(database))[RELAY] == URL.encode()
    applied = await apply(database, SEALER, path, environ=other)
    assert (applied.version, applied.diff) == (1, ["~ senders.email.relay.url: changed"])
    assert (await stored(database))[RELAY] == other["ACME_SMTP_URL"].encode()


async def test_changed_credentials_end_what_providers_have_against_the_tenant_on_that_channel_alone(
    database: Database, folder: Path, issued: IssuedAccount
) -> None:
    path, environ = write(folder, EMAIL, PUSH), {"ACME_SMTP_URL": URL}
    await apply(database, SEALER, path, environ=environ)
    async with database.begin() as connection:
        tenant = await find_tenant(connection, "acme")
    assert tenant is not None
    refused = [
        PauseKey(PauseKind.SENDER, Channel.PUSH, tenant.tenant_id, "fcm acme"),
        PauseKey(PauseKind.SENDER, Channel.EMAIL, tenant.tenant_id, "relay.example"),
        PauseKey(PauseKind.SENDER, Channel.PUSH, TenantId(tenant.tenant_id + 1), "fcm other"),
        PauseKey(PauseKind.RELAY, Channel.EMAIL, name="relay.example"),
        PauseKey(PauseKind.TENANT, Channel.PUSH, tenant.tenant_id),
    ]
    async with database.hot() as pg:
        for key in refused:
            await block(pg, key, "refused", "SENDER_ID_MISMATCH", MINUTE, MINUTE)
    await apply(database, SEALER, path, environ=environ)
    assert await paused(database) == refused
    (folder / "secrets" / "acme.json").write_text(issued.text.replace(PROJECT, "another"))
    await apply(database, SEALER, path, environ=environ, check_only=True)
    assert await paused(database) == refused
    await apply(database, SEALER, path, environ=environ)
    assert await paused(database) == refused[1:]


async def paused(database: Database) -> list[PauseKey]:
    """What is paused, in its order."""
    async with database.hot() as pg:
        return [pause.key for pause in await read_pauses(pg)]


async def test_a_credential_that_is_new_is_named_by_where_it_came_from(database: Database, folder: Path) -> None:
    await apply(database, SEALER, write(folder, EMAIL), environ={"ACME_SMTP_URL": URL})
    applied = await apply(database, SEALER, write(folder, EMAIL, PUSH), environ={"ACME_SMTP_URL": URL})
    assert applied.diff == ["+ senders.push.fcm.service_account.file: secrets/acme.json"]
    renamed = write(folder, EMAIL.replace("ACME_SMTP_URL", "ACME_RELAY"), PUSH)
    moved = await apply(database, SEALER, renamed, environ={"ACME_RELAY": URL})
    assert moved.diff == ["~ senders.email.relay.url.env: ACME_SMTP_URL → ACME_RELAY"]


async def test_what_the_file_no_longer_refers_to_is_forgotten_and_a_sender_left_out_is_kept(
    database: Database, folder: Path
) -> None:
    environ = {"ACME_SMTP_URL": URL}
    await apply(database, SEALER, write(folder, EMAIL, PUSH), environ=environ)
    kept = await apply(database, SEALER, write(folder, "email: {from: hello@acme.example}"), environ={})
    assert kept.kept == ["senders.push"]
    assert "- senders.email.relay.url.env: ACME_SMTP_URL" in kept.diff
    assert set(await stored(database)) == {FCM}
    pruned = await apply(database, SEALER, write(folder), environ={}, prune=True)
    assert pruned.kept == []
    assert await stored(database) == {}


async def test_a_demo_reads_and_stores_none_and_leaves_what_is_there(database: Database, folder: Path) -> None:
    await apply(database, SEALER, write(folder, EMAIL, PUSH))
    assert await stored(database) == {}
    applied = await apply(database, SEALER, write(folder, EMAIL, PUSH), environ={"ACME_SMTP_URL": URL})
    assert applied.diff == ["~ senders.email.relay.url: changed", "~ senders.push.fcm.service_account: changed"]
    await apply(database, SEALER, write(folder, EMAIL, PUSH))
    assert set(await stored(database)) == {RELAY, FCM}


async def test_other_master_keys_have_them_stored_anew(database: Database, folder: Path) -> None:
    environ = {"ACME_SMTP_URL": URL}
    await apply(database, Sealer([b"o" * 32]), write(folder, EMAIL), environ=environ)
    applied = await apply(database, SEALER, write(folder, EMAIL), environ=environ)
    assert applied.diff == ["~ senders.email.relay.url: changed"]
    assert (await stored(database))[RELAY] == URL.encode()


@pytest.mark.parametrize(
    ("senders", "environ", "what"),
    [
        (EMAIL, {}, "4:60 senders.email.relay.url: the environment variable ACME_SMTP_URL is not set"),
        (EMAIL, {"ACME_SMTP_ULR": URL}, "ACME_SMTP_URL is not set, did you mean ACME_SMTP_ULR?"),
        (EMAIL, {"ACME_SMTP_URL": "  "}, "the environment variable ACME_SMTP_URL is empty"),
        (EMAIL, {"ACME_SMTP_URL": "ftp://a:hunter2@b"}, "what {env: ACME_SMTP_URL} holds cannot be used: it must be a"),
        (EMAIL, {"ACME_SMTP_URL": URL.replace("smtps", "smtp")}, "smtp:// would send it unencrypted"),
        (EMAIL, {"ACME_SMTP_URL": "smtps://\udcff@x.example"}, "holds cannot be used: it is not UTF-8"),
        (PUSH.replace("acme.json", "no.json"), {}, "the file secrets/no.json cannot be read: No such file"),
        (PUSH.replace("secrets/acme.json", "secrets"), {}, "the file secrets cannot be read: Is a directory"),
        (PUSH.replace("secrets/acme.json", "empty.json"), {}, "the file empty.json is empty"),
        (PUSH.replace("secrets/acme.json", "large.json"), {}, "the file large.json is far too large"),
        (PUSH.replace("secrets/acme.json", "acme.yaml"), {}, "holds cannot be used: this is no service account"),
        (
            BROWSERS,
            {"ACME_VAPID": "hunter2"},
            "{env: ACME_VAPID} holds cannot be used: a VAPID key is a private key on",
        ),
    ],
)
async def test_a_credential_that_cannot_be_had_is_told_with_its_place(
    database: Database, folder: Path, senders: str, environ: dict[str, str], what: str
) -> None:
    (folder / "empty.json").write_text("\n")
    (folder / "large.json").write_text("x" * 100_000)
    with pytest.raises(TenantFileError) as caught:
        await apply(database, SEALER, write(folder, senders), environ=environ)
    (mistake,) = caught.value.mistakes
    assert mistake.startswith("acme.yaml:4:")
    assert what in mistake
    assert "hunter2" not in mistake
    async with database.begin() as connection:
        assert await find_tenant(connection, "acme") is None


async def test_a_vapid_key_stays_whatever_file_is_applied_until_another_takes_its_place(
    database: Database, folder: Path
) -> None:
    one, other = new_vapid_key().secret, new_vapid_key().secret
    await apply(database, SEALER, write(folder, BROWSERS), environ={"ACME_VAPID": one.decode()})
    assert await stored(database) == {VAPID: one}
    without = write(folder, "push: {webpush: {contact: 'mailto:ops@acme.example'}}")
    await apply(database, SEALER, without, environ={})
    await apply(database, SEALER, write(folder), environ={}, prune=True)
    assert await stored(database) == {VAPID: one}
    moved = await apply(database, SEALER, write(folder, BROWSERS), environ={"ACME_VAPID": other.decode()})
    assert any("vapid_key" in line for line in moved.diff)
    assert await stored(database) == {VAPID: other}


async def test_all_that_are_missing_are_told_at_once(database: Database, folder: Path) -> None:
    path = write(folder, EMAIL, PUSH.replace("acme.json", "no.json"))
    with pytest.raises(TenantFileError) as caught:
        await apply(database, SEALER, path, environ={})
    assert len(caught.value.mistakes) == 2


async def test_channels_that_wait_for_a_sender_are_warned_of(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "acme.yaml"
    types = "event_types: {news: {channels: {email: {subject: S, text: T}}}}\n"
    path.write_text(f"waybill: 1\ntenant: acme\nname: Acme\n{types}")

    async def applied() -> Applied:
        return await apply(database, SEALER, path, environ={})

    assert (await applied()).warnings == ["senders.email is missing: news will wait on email until there is one"]
    path.write_text(f"waybill: 1\ntenant: acme\nname: Acme\nsenders: {{email: {{from: a@acme.example}}}}\n{types}")
    assert (await applied()).warnings == []
    path.write_text(f"waybill: 1\ntenant: acme\nname: Acme\n{types}")
    assert ((await applied()).warnings, (await applied()).kept) == ([], ["senders.email"])
