"""The short commands on a real database: schema, tenants, keys."""

import asyncio
import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from services.cli.sandbox.serviceaccount import IssuedAccount
from shared.sealing import new_master_key
from shared.store.database import Database
from shared.store.keys import note_uses
from shared.web.tokens import scope_of_token
from tests.fakes.installation import CAMPUS
from tests.fakes.product import WAYBILL, clean_environment

COMMAND_SECONDS = 60
ACCOUNT = IssuedAccount.make("http://127.0.0.1:9/token").text
Done = subprocess.CompletedProcess[str]


class Shell:
    """Runs commands with the settings of one database."""

    def __init__(self, database_url: str) -> None:
        self.settings = {"DATABASE_URL": database_url, "MASTER_KEYS": new_master_key()}
        self.credentials = {"CAMPUS_FCM_ACCOUNT": ACCOUNT}

    async def __call__(self, *arguments: str) -> Done:
        """The finished command."""
        return await asyncio.to_thread(self._run, arguments)

    def _run(self, arguments: tuple[str, ...]) -> Done:
        environment = clean_environment(self.settings) | self.credentials
        return subprocess.run(
            [WAYBILL, *arguments], env=environment, capture_output=True, text=True, timeout=COMMAND_SECONDS
        )


async def test_an_empty_database_is_migrated_once_and_found_right(empty_database_url: str) -> None:
    waybill = Shell(empty_database_url)
    missing = await waybill("db", "check")
    assert missing.returncode == 1
    assert "run `waybill db migrate`" in missing.stderr
    made = [await waybill("db", "migrate", "--json") for _ in range(2)]
    assert [done.returncode for done in made] == [0, 0]
    assert json.loads(made[0].stdout) == json.loads(made[1].stdout)
    found = await waybill("db", "check", "--json")
    assert (found.returncode, json.loads(found.stdout)) == (0, {"ok": True, "differences": []})


async def test_a_schema_of_a_newer_release_is_one_line_that_says_so(database_url: str, database: Database) -> None:
    async with database.hot() as pg:
        await pg.execute("UPDATE alembic_version SET version_num = '29991231_0000'")
    waybill = Shell(database_url)
    for command in (("db", "migrate"), ("key", "create", "campus")):
        done = await waybill(*command)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert "29991231_0000" in done.stderr


async def test_a_command_before_the_migration_names_the_migration(empty_database_url: str) -> None:
    for command in (("apply", str(CAMPUS)), ("key", "create", "campus")):
        done = await Shell(empty_database_url)(*command)
        assert done.returncode == 1
        assert "run `waybill db migrate`" in done.stderr


async def test_a_wrong_password_is_one_line_without_the_password(database_url: str) -> None:
    parts = urlsplit(database_url)
    wrong = parts._replace(netloc=f"{parts.username}:s3cret@{parts.hostname}:{parts.port}").geturl()
    for command in (("db", "check"), ("key", "create", "campus")):
        done = await Shell(wrong)(*command)
        assert done.returncode == 3
        assert len(done.stderr.splitlines()) == 1
        assert "Postgres refuses the connection" in done.stderr
        assert "s3cret" not in done.stderr


async def test_a_tenant_is_checked_applied_and_applied_again_without_a_change(database_url: str) -> None:
    waybill = Shell(database_url)
    looked = json.loads((await waybill("apply", str(CAMPUS), "--check", "--json")).stdout)
    assert (looked["changed"], looked["applied"], looked["version"]) == (True, False, 1)
    first = json.loads((await waybill("apply", str(CAMPUS), "--json")).stdout)
    assert (first["tenant"], first["applied"], first["version"]) == ("campus", True, 1)
    again = await waybill("apply", str(CAMPUS))
    assert (again.returncode, again.stdout) == (0, "Nothing to change: campus is at version 1.\n")


async def test_a_credential_is_needed_named_when_it_is_missing_and_never_shown(database_url: str) -> None:
    waybill = Shell(database_url)
    waybill.credentials = {}
    for options in ((), ("--check",)):
        done = await waybill("apply", str(CAMPUS), *options)
        assert (done.returncode, done.stdout) == (1, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith("campus.yaml:")
        assert line.endswith(
            " senders.push.fcm.service_account: the environment variable CAMPUS_FCM_ACCOUNT is not set"
        )
    waybill.credentials = {"CAMPUS_FCM_ACCOUNT": ACCOUNT}
    assert "private" not in (await waybill("apply", str(CAMPUS))).stdout.lower()
    waybill.credentials = {"CAMPUS_FCM_ACCOUNT": ACCOUNT.replace("simulated", "another")}
    changed = await waybill("apply", str(CAMPUS))
    assert changed.stdout.splitlines() == [
        "~ senders.push.fcm.service_account: changed",
        "campus is at version 1.",
    ]


async def test_tenants_are_listed_with_version_and_event_types(database_url: str) -> None:
    waybill = Shell(database_url)
    assert (await waybill("tenant", "list")).stdout == "There is no tenant yet: `waybill apply` a file.\n"
    await waybill("apply", str(CAMPUS))
    assert (await waybill("tenant", "list")).stdout.startswith(
        "campus (CampusCritique), version 1: booking_confirmed, "
    )
    (listed,) = json.loads((await waybill("tenant", "list", "--json")).stdout)
    assert (listed["tenant"], listed["name"], listed["version"]) == ("campus", "CampusCritique", 1)
    assert "payout_sent" in listed["event_types"]


async def test_a_wrong_tenant_file_is_shown_with_every_place(database_url: str, tmp_path: Path) -> None:
    wrong = tmp_path / "campus.yaml"
    wrong.write_text("waybill: 1\ntenant: campus\nname: Campus\nlocals: [en]\nevent_types: {}\nnonsense: 1\n")
    done = await Shell(database_url)("apply", str(wrong))
    assert done.returncode == 1
    assert "campus.yaml:4:1 " in done.stderr
    assert "campus.yaml:6:1 " in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_vapid_key_is_made_once_and_only_its_public_half_is_shown(database_url: str) -> None:
    waybill = Shell(database_url)
    refused = await waybill("sender", "vapid", "campus")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "there is no tenant campus" in refused.stderr
    await waybill("apply", str(CAMPUS))
    made = json.loads((await waybill("sender", "vapid", "campus", "--json")).stdout)
    assert (made["tenant"], made["made"], len(made["public_key"])) == ("campus", True, 87)
    assert (await waybill("sender", "vapid", "campus")).stdout == f"{made['public_key']}\n"
    assert (await waybill("apply", str(CAMPUS))).returncode == 0
    assert (await waybill("sender", "vapid", "campus")).stdout == f"{made['public_key']}\n"


async def test_a_key_is_made_for_a_tenant_that_exists_and_no_other(database_url: str) -> None:
    waybill = Shell(database_url)
    refused = await waybill("key", "create", "campus")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "there is no tenant campus" in refused.stderr
    await waybill("apply", str(CAMPUS))
    assert (await waybill("key", "create", "campus")).stdout.startswith("wb_live_")
    options = ("--test", "--permission", "events:write", "--expires", "90d", "--json")
    made = json.loads((await waybill("key", "create", "campus", *options)).stdout)
    assert made["key"].startswith("wb_test_")
    assert (made["mode"], made["permissions"]) == ("test", ["events:write"])
    assert made["expires_at"].endswith("Z")


async def test_keys_are_listed_without_their_secret_and_revoked_by_number_beginning_or_all_of_it(
    database_url: str, database: Database
) -> None:
    waybill = Shell(database_url)
    assert (await waybill("key", "list")).stdout == "There is no key yet.\n"
    await waybill("apply", str(CAMPUS))
    keys = [(await waybill("key", "create", "campus", *half)).stdout.strip() for half in ((), ("--test",), ())]
    async with database.hot() as pg:
        await note_uses(pg, {1: datetime(2026, 12, 1, 9, tzinfo=UTC)})
    shown = await waybill("key", "list", "campus")
    assert not any(key in shown.stdout for key in keys)
    first, second, _ = shown.stdout.splitlines()
    assert first.startswith(f"1  {keys[0][:12]}…  campus (live)  everything  made 20")
    assert first.endswith("last used 2026-12-01 09:00Z")
    assert (" campus (test) " in second, second.endswith("never used")) == (True, True)
    for number, named in enumerate(("1", keys[1][:12], keys[2]), 1):
        done = await waybill("key", "revoke", named)
        assert done.stdout.startswith(f"Revoked: {number}  {keys[number - 1][:12]}…  campus (")
    again = await waybill("key", "revoke", "1", "--json")
    assert (again.returncode, json.loads(again.stdout)["changed"]) == (0, False)
    listed = json.loads((await waybill("key", "list", "--json")).stdout)
    assert [(one["id"], one["mode"], one["revoked_at"] is None) for one in listed] == [
        (1, "live", False),
        (2, "test", False),
        (3, "live", False),
    ]
    assert "  revoked 20" in (await waybill("key", "list")).stdout


async def test_a_key_that_is_none_or_could_be_two_is_not_revoked(database_url: str, database: Database) -> None:
    waybill = Shell(database_url)
    await waybill("apply", str(CAMPUS))
    keys = [(await waybill("key", "create", "campus")).stdout.strip() for _ in range(2)]
    slipped = keys[0][:-1] + ("0" if keys[0][-1] != "0" else "1")
    for named in ("3", "", "wb_live_", slipped, "…", "1 OR 1=1"):
        done = await waybill("key", "revoke", named)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            "waybill: there is no such key: `waybill key list` has a number and a beginning for each\n"
        )
    async with database.hot() as pg:
        await pg.execute("UPDATE api_keys SET hint = 'wb_live_same…'")
    done = await waybill("key", "revoke", "wb_live_same")
    assert (done.returncode, "name one by its number, 1 or 2" in done.stderr) == (1, True)
    async with database.hot() as pg:
        assert await pg.fetchval("SELECT count(*) FROM api_keys WHERE revoked_at IS NOT NULL") == 0
    unknown = await waybill("key", "list", "campos")
    assert (unknown.returncode, "there is no tenant campos" in unknown.stderr) == (1, True)


async def test_a_subscriber_token_belongs_to_its_half_and_lives_a_day_at_most(database_url: str) -> None:
    waybill = Shell(database_url)
    await waybill("apply", str(CAMPUS))
    live = await waybill("key", "subscriber", "campus", "--recipient", "bob")
    test = await waybill("key", "subscriber", "campus", "--recipient", "bob", "--test")
    assert scope_of_token(live.stdout.strip()) != scope_of_token(test.stdout.strip())
    too_long = await waybill("key", "subscriber", "campus", "--recipient", "bob", "--lifetime", "25h")
    assert too_long.returncode == 2
    assert "at most 24 hours" in too_long.stderr


async def test_other_master_keys_are_named_as_the_mistake(database_url: str) -> None:
    await Shell(database_url)("apply", str(CAMPUS))
    done = await Shell(database_url)("key", "subscriber", "campus", "--recipient", "bob")
    assert done.returncode == 1
    assert "opens under none of the master keys" in done.stderr
