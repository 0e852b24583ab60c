"""`waybill suppressions` and `waybill bounces` on a real database."""

import asyncio
import json
import mailbox
import subprocess
from email import message_from_bytes
from pathlib import Path

import pytest

from services.cli.bounces import find_mails
from shared.channel import Channel
from shared.ids import job_uuid
from shared.sealing import new_master_key
from shared.store.database import Database
from tests.fakes.ingest import apply_model, tenant_model
from tests.fakes.product import WAYBILL, clean_environment
from tests.integration.test_receipts import sent

Done = subprocess.CompletedProcess[str]
BOB = "bob@example.com"


class Shell:
    """Runs commands on one database."""

    def __init__(self, database_url: str) -> None:
        self.settings = {"DATABASE_URL": database_url, "MASTER_KEYS": new_master_key()}

    async def __call__(self, *arguments: str, standard_input: str = "") -> Done:
        """The finished command."""
        return await asyncio.to_thread(self._run, arguments, standard_input)

    def _run(self, arguments: tuple[str, ...], standard_input: str) -> Done:
        return subprocess.run(
            [WAYBILL, *arguments],
            env=clean_environment(self.settings),
            input=standard_input,
            capture_output=True,
            text=True,
            timeout=60,
        )


def bounce(job_hex: str, number: int = 1) -> bytes:
    return (
        "From: Mail Delivery System <MAILER-DAEMON@mx.example>\nTo: news@shop.example\nSubject: Undelivered Mail\n"
        f"Message-ID: <dsn-{number}@mx.example>\nMIME-Version: 1.0\n"
        'Content-Type: multipart/report; report-type=delivery-status; boundary="b"\n\n'
        "--b\nContent-Type: text/plain\n\nSorry.\n\n--b\nContent-Type: message/delivery-status\n\n"
        f"Reporting-MTA: dns; mx.example\n\nFinal-Recipient: rfc822; {BOB}\nAction: failed\nStatus: 5.1.1\n"
        "Diagnostic-Code: smtp; 550 5.1.1 User unknown\n\n--b\nContent-Type: message/rfc822-headers\n\n"
        f"Message-ID: <{job_hex}@shop.example>\nTo: {BOB}\n\n--b--\n"
    ).encode()


async def test_suppressions_are_added_listed_and_removed_by_hand(database_url: str, database: Database) -> None:
    model = tenant_model()
    await apply_model(database, model)
    tenant = model.key
    waybill = Shell(database_url)
    added = await waybill("suppressions", "add", tenant, "Bob@Example.com", "eve@example.com", "--detail", "asked us")
    (line,) = added.stderr.splitlines()
    assert (added.returncode, json.loads(line)["event"]) == (0, "operator.suppressed")
    assert "example.com" not in line
    listed = json.loads((await waybill("suppressions", "list", tenant, "--json")).stdout)
    assert [(one["address"], one["reason"], one["source"], one["detail"]) for one in listed] == [
        ("eve@example.com", "manual", "command", "asked us"),
        (BOB, "manual", "command", "asked us"),
    ]
    assert json.loads((await waybill("suppressions", "list", tenant, "--test", "--json")).stdout) == []
    removed = await waybill("suppressions", "remove", tenant, "BOB@example.com", "zoe@example.com")
    assert (removed.returncode, removed.stdout) == (0, f"Written to again: {BOB}\n")
    assert "zoe@example.com was not suppressed" in removed.stderr
    assert BOB not in (await waybill("suppressions", "list", tenant)).stdout


async def test_what_cannot_be_done_about_suppressions_is_said_in_a_line(database_url: str, database: Database) -> None:
    model = tenant_model()
    await apply_model(database, model)
    waybill = Shell(database_url)
    for code, arguments in [
        (2, ("add", model.key, BOB, "nobody")),
        (1, ("add", "nobody", BOB)),
        (1, ("remove", model.key, BOB)),
    ]:
        done = await waybill("suppressions", *arguments)
        assert (done.returncode, len(done.stderr.splitlines()), done.stdout) == (code, 1, "")
    assert json.loads((await waybill("suppressions", "list", model.key, "--json")).stdout) == []


async def test_an_mbox_read_twice_fails_the_job_once(database_url: str, database: Database, tmp_path: Path) -> None:
    await apply_model(database, tenant_model())
    claim = await sent(database)
    box = mailbox.mbox(tmp_path / "back.mbox")
    for raw in (bounce(job_uuid(claim.event_id, Channel.EMAIL).hex), b"From: tom@x.example\n\nThank you!\n"):
        box.add(message_from_bytes(raw))
    box.close()
    waybill = Shell(database_url)
    told = [await waybill("bounces", "read", str(tmp_path / "back.mbox"), "--json") for _ in range(2)]
    assert [done.returncode for done in told] == [0, 0], told[0].stderr
    first, second = (json.loads(done.stdout) for done in told)
    assert (first["read"], first["new"], first["not_a_report"]) == (2, 1, 1)
    assert (second["read"], second["new"], second["known"]) == (2, 0, 1)
    async with database.hot() as pg:
        assert await pg.fetchval("SELECT status FROM outgoing") == "FAILED"
        assert await pg.fetchval("SELECT count(*) FROM suppressions WHERE address = $1", BOB) == 1


async def test_one_mail_is_read_from_standard_input(database_url: str, database: Database) -> None:
    await apply_model(database, tenant_model())
    claim = await sent(database)
    raw = bounce(job_uuid(claim.event_id, Channel.EMAIL).hex)
    done = await Shell(database_url)("bounces", "read", "-", "--json", standard_input=raw.decode())
    assert (done.returncode, json.loads(done.stdout)["new"]) == (0, 1), done.stderr
    async with database.hot() as pg:
        assert await pg.fetchval("SELECT status FROM outgoing") == "FAILED"


@pytest.mark.parametrize("form", ["maildir", "folder", "file", "mbox"])
def test_mails_are_found_in_whatever_holds_them(form: str, tmp_path: Path) -> None:
    raw, path = b"Subject: back\n\nhello\n", tmp_path / "source"
    if form == "maildir":
        mailbox.Maildir(path).add(raw)
    elif form == "mbox":
        box = mailbox.mbox(path)
        box.add(raw)
        box.close()
    else:
        file = path / "1.eml" if form == "folder" else path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(raw)
    mails = find_mails(path)
    assert (mails.count, [one.rstrip() for one in mails.raw]) == (1, [raw.rstrip()])
    with pytest.raises(FileNotFoundError):
        find_mails(tmp_path / "nothing")
