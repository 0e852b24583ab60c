"""The places a process can die, on the real processes: killed -9 in the middle and started again."""

from pathlib import Path

from deploy.rabbitmq.node import RabbitNode
from shared.store.database import Database
from tests.fakes.installation import SERVICES, Installation, installed, ledger_mistakes
from tests.fakes.product import eventually
from tests.fakes.smtp_script import Stall


async def only_email(installation: Installation, event_id: str) -> list[tuple[str, bool]]:
    """The verdict of each attempt of the event's mail, and whether it may be a duplicate."""
    jobs = (await installation.event(event_id))["jobs"]
    (job,) = [job for job in jobs if job["channel"] == "email"]
    return [(attempt["verdict"], attempt["possible_duplicate"]) for attempt in job["attempts"]]


async def test_row_2_ingest_dies_after_the_commit_and_before_the_publish(
    database_url: str, database: Database, rabbit: RabbitNode, amqp_url: str, tmp_path: Path
) -> None:
    async with installed(database_url, amqp_url, tmp_path, *SERVICES) as installation:
        rabbit.freeze()
        answer = await installation.post()
        assert answer.status_code == 202
        installation.processes["ingest"].kill()
        # Killed, not thawed: what the frozen broker had in its buffers must not deliver the event.
        rabbit.kill()
        rabbit.start()
        async with database.hot() as pg:
            assert await pg.fetchval("SELECT status FROM events") == "QUEUED"
        await installation.start("ingest")
        event = await installation.until_outcome(answer.json()["id"])
        assert [(job["status"], len(job["attempts"])) for job in event["jobs"]] == [("SENT", 1)] * 3
        assert len(installation.sink.mails) == 1
        async with database.hot() as pg:
            assert await pg.fetchval("SELECT announce_count FROM events") >= 1
    assert await ledger_mistakes(database) == []


async def test_row_6_email_dies_after_the_claim_and_before_the_send(
    database_url: str, database: Database, amqp_url: str, tmp_path: Path
) -> None:
    async with installed(database_url, amqp_url, tmp_path, *SERVICES) as installation:
        sink = installation.sink
        sink.script.always("connect", Stall())
        answer = await installation.post()
        await sink.wait_until(lambda: sink.open_count > 0)
        installation.processes["email"].kill()
        sink.script.always("connect", None)
        await installation.start("email")
        event_id = answer.json()["id"]
        await installation.until_outcome(event_id)
        assert len(sink.mails) == 1
        attempts = await only_email(installation, event_id)
        assert attempts[-1][0] == "delivered"
        assert "lost" in [verdict for verdict, _ in attempts]
    assert await ledger_mistakes(database) == []


async def test_row_7_email_dies_after_the_relay_took_it_and_before_the_verdict(
    database_url: str, database: Database, amqp_url: str, tmp_path: Path
) -> None:
    async with installed(database_url, amqp_url, tmp_path, *SERVICES) as installation:
        sink = installation.sink
        sink.script.always("eod", Stall())
        answer = await installation.post()
        await sink.wait_for_mails(1)
        installation.processes["email"].kill()
        sink.script.always("eod", None)
        await installation.start("email")
        event_id = answer.json()["id"]
        await installation.until_outcome(event_id)
        assert len(sink.mails) == 2
        assert len({mail.message_id for mail in sink.mails}) == 1
        assert await only_email(installation, event_id) == [("lost", False), ("delivered", True)]
        async with database.hot() as pg:
            assert await pg.fetchval("SELECT count(*) FROM inbox") == 1
    assert await ledger_mistakes(database) == []


async def test_a_killed_broker_delays_no_202_and_nothing_needs_a_restart(
    database_url: str, database: Database, rabbit: RabbitNode, amqp_url: str, tmp_path: Path
) -> None:
    async with installed(database_url, amqp_url, tmp_path, *SERVICES) as installation:
        rabbit.kill()
        answers = [await installation.post() for _ in range(20)]
        assert [answer.status_code for answer in answers] == [202] * 20
        rabbit.start()
        for answer in answers:
            await installation.until_outcome(answer.json()["id"])
        assert len(installation.sink.mails) == 20

        async def inbox_is_full() -> bool:
            page = (await installation.inbox.get("/api/v1/inbox")).json()
            return bool(page["counts"] == {"total": 20, "unread": 20})

        await eventually(inbox_is_full)
        assert all(process.exit_code() is None for process in installation.processes.values())
    assert await ledger_mistakes(database) == []
