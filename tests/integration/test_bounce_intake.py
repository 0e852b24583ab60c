"""Bounces on their way in, from listener, webhook and file; what is believed, and what forged ones do (nothing)."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

import httpx
import pytest

from services.email.intake import Arrival, Taken
from services.email.receiving import Receiving
from services.email.returnpath import ReturnPaths
from services.email.webhook import HEADER, bounce_route, sign
from shared.channel import Channel
from shared.ids import ScopeId, job_uuid
from shared.lifecycle import run_parts
from shared.store.claim import Claim
from shared.store.database import Database
from shared.store.receipts import ReceiptSource
from shared.store.suppressions import list_suppressions
from shared.web.app import make_app
from shared.web.server import http_part
from tests.factories import accept_events, claim_jobs, create_jobs, end_leases, new_event, new_job
from tests.fakes.product import eventually
from tests.integration.test_receipts import deliver

DOMAIN = "mail.shop.example"
BOB = "bob@example.com"
KEY, FOREIGN = b"k" * 32, b"f" * 32
SECRET = "s3cret"
PATHS = ReturnPaths((KEY,), DOMAIN)


@dataclass
class Back:
    """What takes bounces in, on a database with one mail to bob that was sent."""

    database: Database
    receiving: Receiving
    claim: Claim
    ids: Iterator[int] = field(default_factory=lambda: iter(range(1, 1_000)))

    @property
    def job(self) -> UUID:
        return job_uuid(self.claim.event_id, Channel.EMAIL)

    def return_path(self, paths: ReturnPaths = PATHS, ago: timedelta = timedelta()) -> str:
        return str(paths.address_for(self.job, datetime.now(UTC) - ago))

    def bounce(self, to: str, address: str = BOB, message_id: str | None = None) -> bytes:
        returned = message_id or f"<{self.job.hex}@shop.example>"
        return (
            f"From: Mail Delivery System <MAILER-DAEMON@mx.example>\r\nTo: {to}\r\nSubject: Undelivered Mail\r\n"
            f"Message-ID: <dsn-{next(self.ids)}@mx.example>\r\nMIME-Version: 1.0\r\n"
            'Content-Type: multipart/report; report-type=delivery-status; boundary="B"\r\n\r\n'
            "--B\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example\r\n\r\n"
            f"Final-Recipient: rfc822; {address}\r\nAction: failed\r\nStatus: 5.1.1\r\n"
            "Diagnostic-Code: smtp; 550 5.1.1 no such user\r\n\r\n"
            f"--B\r\nContent-Type: text/rfc822-headers\r\n\r\nMessage-ID: {returned}\r\nTo: {address}\r\n\r\n--B--\r\n"
        ).encode()

    async def state(self) -> tuple[str, str, list[str]]:
        async with self.database.hot() as pg:
            row = await pg.fetchrow("SELECT status, reason FROM outgoing")
            assert row is not None
            listed = await list_suppressions(pg, ScopeId(1), limit=10)
        return row["status"], row["reason"], [one.address for one in listed]

    async def take(self, raw: bytes, source: ReceiptSource, *envelope_to: str) -> Taken:
        return await self.receiving.take(Arrival(raw, source, envelope_to))


BOUNCED = ("FAILED", "bounced", [BOB])
SENT: tuple[str, str, list[str]] = ("SENT", "", [])


@pytest.fixture
async def back(database: Database) -> Back:
    event = new_event()
    await accept_events(database, [event])
    await create_jobs(database, [new_job(event_id=event.event_id, to_address=BOB)])
    (claim,) = await claim_jobs(database)
    assert await deliver(database, claim) == "applied"
    return Back(database, Receiving(database, PATHS, timedelta(milliseconds=50)), claim)


async def test_a_bounce_to_our_return_path_is_believed(back: Back) -> None:
    path = back.return_path()
    assert await back.take(back.bounce(path), ReceiptSource.LISTENER, path) is Taken.NEW
    assert await back.state() == BOUNCED


async def test_the_same_bounce_twice_is_known(back: Back) -> None:
    raw = back.bounce(back.return_path())
    assert [await back.take(raw, ReceiptSource.FILE) for _ in range(2)] == [Taken.NEW, Taken.KNOWN]


async def test_a_bounce_without_a_name_of_its_own_is_known_by_what_it_says(back: Back) -> None:
    path = back.return_path()
    raw = back.bounce(path).replace(b"Message-ID: <dsn", b"X-Was: <dsn", 1)
    told = [await back.take(one, ReceiptSource.LISTENER, path) for one in (raw, raw, raw + b"\r\n")]
    assert told == [Taken.NEW, Taken.KNOWN, Taken.NEW]


async def test_a_report_that_takes_the_name_of_another_one_keeps_it_from_nothing(back: Back) -> None:
    event = new_event()
    await accept_events(back.database, [event])
    await create_jobs(back.database, [new_job(event_id=event.event_id, to_address="eve@example.com")])
    mine = str(PATHS.address_for(job_uuid(event.event_id, Channel.EMAIL), datetime.now(UTC)))
    path = back.return_path()
    raw = back.bounce(path)
    assert await back.take(raw, ReceiptSource.LISTENER, mine) is Taken.NEW
    assert await back.take(raw, ReceiptSource.LISTENER, path) is Taken.NEW
    async with back.database.hot() as pg:
        assert [one.address for one in await list_suppressions(pg, ScopeId(1), limit=10)] == [BOB]


@pytest.mark.parametrize("source", list(ReceiptSource))
async def test_forged_and_expired_return_paths_suppress_nobody_whoever_hands_them_in(
    back: Back, source: ReceiptSource
) -> None:
    forged = back.return_path(ReturnPaths((FOREIGN,), DOMAIN))
    expired = back.return_path(ago=timedelta(days=30))
    assert await back.take(back.bounce(forged), source, forged) is Taken.FORGED
    assert await back.take(back.bounce(expired), source, expired) is Taken.EXPIRED
    assert await back.state() == SENT


async def test_a_message_id_counts_only_where_somebody_vouches_for_the_report(back: Back) -> None:
    raw = back.bounce("hello@shop.example")
    assert await back.take(raw, ReceiptSource.LISTENER, "hello@shop.example") is Taken.FORGED
    assert await back.state() == SENT
    assert await back.take(raw, ReceiptSource.FILE) is Taken.NEW
    assert await back.state() == BOUNCED


@pytest.mark.parametrize(
    ("kind", "before"),
    [
        ("message/rfc822", "From hello@shop.example Tue Dec  1 12:00:00 2026\r\n"),
        ("message/rfc822", "\r\n>From hello@shop.example Tue Dec  1 12:00:00 2026\r\n"),
        ("message/global-headers", ""),
    ],
)
async def test_the_mail_that_came_back_is_known_however_its_copy_begins(back: Back, kind: str, before: str) -> None:
    copy = f"Content-Type: {kind}\r\n\r\n{before}".encode()
    raw = back.bounce("hello@shop.example").replace(b"Content-Type: text/rfc822-headers\r\n\r\n", copy)
    assert await back.take(raw, ReceiptSource.FILE) is Taken.NEW


async def test_a_bounce_of_a_strangers_mail_is_about_no_job(back: Back) -> None:
    raw = back.bounce("hello@shop.example", message_id="<something@else.example>")
    assert await back.take(raw, ReceiptSource.FILE) is Taken.NO_JOB
    other = back.bounce("hello@shop.example", message_id=f"<{UUID(int=12).hex}@shop.example>")
    assert await back.take(other, ReceiptSource.FILE) is Taken.NO_JOB
    assert await back.state() == SENT


async def test_the_person_behind_a_forward_gets_on_no_list(back: Back) -> None:
    path = back.return_path()
    raw = back.bounce(path, address="hidden@elsewhere.example")
    assert await back.take(raw, ReceiptSource.LISTENER, path) is Taken.NEW
    assert await back.state() == ("FAILED", "bounced", [])


async def test_a_vacation_at_the_return_path_does_nothing(back: Back) -> None:
    path = back.return_path()
    raw = (
        f"From: Bob <{BOB}>\nTo: {path}\nSubject: Out of office\nAuto-Submitted: auto-replied\n\n"
        "My old address says 550 5.1.1 user unknown"
    )
    assert await back.take(raw.encode(), ReceiptSource.LISTENER, path) is Taken.NOT_A_REPORT
    assert await back.state() == SENT


@pytest.mark.parametrize(
    ("action", "status", "words"),
    [
        ("failed", "4.2.2", "452 4.2.2 mailbox full"),
        ("failed", "5.2.2", "552 5.2.2 over quota"),
        ("failed", "4.4.7", "Message expired"),
        ("failed", "5.7.1", "550 5.7.1 our filter calls it spam"),
        ("delayed", "4.4.1", "no answer from host"),
    ],
)
async def test_a_bounce_that_tells_of_no_dead_address_suppresses_nobody(
    back: Back, action: str, status: str, words: str
) -> None:
    path = back.return_path()
    raw = back.bounce(path).replace(b"Action: failed", f"Action: {action}".encode())
    raw = raw.replace(b"Status: 5.1.1", f"Status: {status}".encode())
    await back.take(raw.replace(b"550 5.1.1 no such user", words.encode()), ReceiptSource.LISTENER, path)
    assert (await back.state())[2] == []


async def test_a_bounce_before_the_verdict_waits_and_the_sweep_applies_it(back: Back) -> None:
    async with back.database.hot() as pg:
        await pg.execute("TRUNCATE outgoing, content, attempts, ledger")
    await create_jobs(back.database, [new_job(event_id=back.claim.event_id, to_address=BOB)])
    await end_leases(back.database)
    (claim,) = await claim_jobs(back.database)
    path = back.return_path()
    assert await back.take(back.bounce(path), ReceiptSource.LISTENER, path) is Taken.NEW
    assert await back.state() == ("PENDING", "", [])
    assert await deliver(back.database, claim) == "applied"
    stop = asyncio.Event()
    sweeping = asyncio.create_task(back.receiving.run(stop))

    async def bounced() -> bool:
        return await back.state() == BOUNCED

    await eventually(bounced)
    stop.set()
    await sweeping


@pytest.fixture
async def webhook(back: Back) -> AsyncIterator[httpx.AsyncClient]:
    stop = asyncio.Event()
    app = make_app([bounce_route(back.receiving, SECRET)], "Waybill", "/api/v1")
    part = http_part("email-http", app, "127.0.0.1", 0)
    serving = asyncio.create_task(run_parts([part], stop))
    async with asyncio.timeout(20):
        await part.answering.wait()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{part.port}", timeout=20) as client:
        yield client
    stop.set()
    await serving


async def test_the_webhook_takes_what_is_signed_now(back: Back, webhook: httpx.AsyncClient) -> None:
    raw, now = back.bounce("hello@shop.example"), int(time.time())
    for headers, code in (
        ({}, "signature_missing"),
        ({HEADER: "t=1,v1=zz"}, "signature_missing"),
        ({HEADER: sign("other", raw, now)}, "signature_invalid"),
        ({HEADER: sign(SECRET, raw + b"x", now)}, "signature_invalid"),
        ({HEADER: sign(SECRET, raw, now - 3_600)}, "signature_invalid"),
        ({HEADER: sign(SECRET, raw, now + 3_600)}, "signature_invalid"),
        ({HEADER: sign(SECRET, raw, now - 3_600).replace(f"t={now - 3_600}", f"t={now}")}, "signature_invalid"),
        ({HEADER: sign(SECRET, raw, now).replace(f"t={now}", f"t=0{now}")}, "signature_invalid"),
    ):
        answer = await webhook.post("/bounces", content=raw, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, code)
    assert await back.state() == SENT
    answer = await webhook.post("/bounces", content=raw, headers={HEADER: sign(SECRET, raw, now)})
    assert (answer.status_code, answer.json()) == (200, {"result": "new"})
    assert await back.state() == BOUNCED


async def test_what_was_posted_once_says_nothing_new_when_somebody_posts_it_again(
    back: Back, webhook: httpx.AsyncClient
) -> None:
    raw = back.bounce("hello@shop.example")
    headers = {HEADER: sign(SECRET, raw, int(time.time()))}
    told = [(await webhook.post("/bounces", content=raw, headers=headers)).json()["result"] for _ in range(3)]
    assert told == ["new", "known", "known"]


async def test_a_large_report_is_signed_as_a_whole_and_read_from_its_beginning(
    back: Back, webhook: httpx.AsyncClient
) -> None:
    raw = back.bounce("hello@shop.example").replace(b"\r\n--B--", b"\r\n" + b"x" * 3_000_000 + b"\r\n--B--")
    now = int(time.time())
    for body, status in ((raw + b"!", 401), (raw * 4, 413), (raw, 200)):
        answer = await webhook.post("/bounces", content=body, headers={HEADER: sign(SECRET, raw, now)})
        assert answer.status_code == status
    assert await back.state() == BOUNCED
