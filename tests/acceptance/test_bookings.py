"""Booking confirmed, all the way: on RabbitMQ with a process per service, and on the bus inside one process."""

import asyncio
import random
from pathlib import Path

import httpx
import pytest

from shared.store.database import Database
from tests.fakes.installation import PHONE, SERVICES, installed
from tests.fakes.ledger import ledger_mistakes
from tests.fakes.product import eventually

CHANNELS = ("inapp", "email", "push")
POSTS = 1_000
KEYS = 100
AT_ONCE = 32


@pytest.fixture(params=["rabbitmq", "in-process"])
def bus(request: pytest.FixtureRequest) -> tuple[str | None, tuple[str, ...]]:
    """The broker's URL (None: none) and the processes to run."""
    if request.param == "in-process":
        return None, ("all",)
    return request.getfixturevalue("amqp_url"), SERVICES


async def test_a_booking_lands_in_the_inbox_in_a_mailbox_and_on_a_phone(
    database_url: str, tmp_path: Path, bus: tuple[str | None, tuple[str, ...]]
) -> None:
    amqp_url, processes = bus
    async with installed(database_url, amqp_url, tmp_path, *processes) as installation:
        answer = await installation.post()
        assert answer.status_code == 202
        assert answer.headers["Location"].endswith(answer.json()["id"])
        event = await installation.until_outcome(answer.json()["id"])
        assert event["status"] == "ROUTED"
        assert {job["channel"]: (job["status"], len(job["attempts"])) for job in event["jobs"]} == {
            "inapp": ("SENT", 1),
            "email": ("SENT", 1),
            "push": ("SENT", 1),
        }
        (mail,) = installation.sink.mails
        assert mail.envelope_to == ("bob@example.com",)
        assert "Linear algebra" in str(mail.message["Subject"])
        (push,) = installation.fcm.rung(PHONE)
        assert push["notification"]["title"] == "Linear algebra is booked"
        assert push["apns"]["payload"]["aps"]["badge"] == 1
        page = (await installation.inbox.get("/api/v1/inbox")).json()
        (entry,) = page["data"]
        assert entry["event_id"] == event["id"]
        assert "Linear algebra" in entry["title"]


async def test_a_thousand_posts_with_a_hundred_keys_send_each_once(
    database_url: str, database: Database, tmp_path: Path, bus: tuple[str | None, tuple[str, ...]]
) -> None:
    amqp_url, processes = bus
    keys = [f"booking-{number % KEYS}" for number in range(POSTS)]
    random.shuffle(keys)
    async with installed(database_url, amqp_url, tmp_path, *processes) as installation:
        gate = asyncio.Semaphore(AT_ONCE)

        async def post(key: str) -> tuple[str, str]:
            async def answered() -> httpx.Response | None:
                answer = await installation.post(key)
                # A busy machine may be too late for Postgres: then the same key is posted again.
                return None if answer.status_code == 503 else answer

            async with gate:
                answer = await eventually(answered)
            assert answer.status_code == 202, answer.text
            return key, answer.json()["id"]

        answers = await asyncio.gather(*(post(key) for key in keys))
        ids = dict(answers)
        assert all(ids[key] == event_id for key, event_id in answers)
        assert len(set(ids.values())) == KEYS
        for event_id in ids.values():
            await installation.until_outcome(event_id)
        assert len(installation.sink.mails) == KEYS
        assert len({mail.message_id for mail in installation.sink.mails}) == KEYS
        rung = installation.fcm.rung(PHONE)
        assert len(rung) == len({push["android"]["notification"]["tag"] for push in rung}) == KEYS
        ledger = (await installation.client.get("/api/v1/metrics")).json()
        assert ledger["events"]["ROUTED"] == KEYS
        assert {channel: jobs["SENT"] for channel, jobs in ledger["jobs"].items()} == dict.fromkeys(CHANNELS, KEYS)
        async with database.hot() as pg:
            assert await pg.fetchval("SELECT count(*) FROM events") == KEYS
            assert await pg.fetchval("SELECT count(*) FROM outgoing") == len(CHANNELS) * KEYS
            delivered = "SELECT count(*) FROM attempts WHERE verdict = 'delivered'"
            assert await pg.fetchval(delivered) == len(CHANNELS) * KEYS
            assert await pg.fetchval("SELECT count(*) FROM inbox") == KEYS
    assert await ledger_mistakes(database) == []
