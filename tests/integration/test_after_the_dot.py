"""A relay that takes the final dot and closes without a word: did the mail go out? What the rule says is done."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from services.email.provider import EmailProvider
from services.email.relays import OneRelay
from shared.channel import Channel
from shared.ids import ScopeId
from shared.job import JobReason
from shared.relay import Relay
from shared.store.database import Database
from shared.store.job_lists import JobFilters, find_failed
from tests.factories import create_jobs, new_job
from tests.fakes.product import eventually
from tests.fakes.smtp import SmtpSink
from tests.fakes.smtp_script import Drop
from tests.fakes.working import working

ATTEMPT = timedelta(seconds=10)
SOON = timedelta(milliseconds=100)


@pytest.fixture
async def sink() -> AsyncIterator[SmtpSink]:
    started = await SmtpSink().start()
    started.script.once("eod", Drop())
    yield started
    await started.close()


async def finished(database: Database, sink: SmtpSink, on_unknown: str) -> tuple[str, str, list[tuple[object, ...]]]:
    """Status and reason of a mail in the end, and what its attempts say."""
    await create_jobs(database, [new_job(on_unknown=on_unknown)])
    provider = EmailProvider(OneRelay(Relay("127.0.0.1", sink.port)), pool_size=1, attempt_timeout=ATTEMPT)

    async def over() -> "tuple[str, str] | None":
        async with database.hot() as pg:
            row = await pg.fetchrow("SELECT status, reason FROM outgoing WHERE status <> 'PENDING'")
        return None if row is None else (row["status"], row["reason"])

    async with working(database, provider, attempt_timeout=ATTEMPT, unanswered_step=SOON):
        status, reason = await eventually(over)
    async with database.hot() as pg:
        rows = await pg.fetch("SELECT verdict, reason, possible_duplicate FROM attempts ORDER BY claim_seq")
    return status, reason, [tuple(row) for row in rows]


async def test_with_hold_it_is_not_sent_again_and_listed_as_failed(database: Database, sink: SmtpSink) -> None:
    status, reason, attempts = await finished(database, sink, "hold")
    assert (status, reason) == ("FAILED", "unknown_outcome")
    assert attempts == [("no_verdict", "after_handover", False)]
    assert len(sink.mails) == 1
    async with database.hot() as pg:
        failed = await find_failed(pg, ScopeId(1), JobFilters(), None, 10)
    assert [(job.channel, job.reason) for job in failed] == [(Channel.EMAIL, JobReason.UNKNOWN_OUTCOME)]


async def test_with_resend_one_more_copy_goes_out_under_the_same_message_id_and_is_flagged(
    database: Database, sink: SmtpSink
) -> None:
    status, reason, attempts = await finished(database, sink, "resend")
    assert (status, reason) == ("SENT", "")
    assert attempts == [("no_verdict", "after_handover", False), ("delivered", "", True)]
    assert len(sink.mails) == 2
    assert len({mail.message_id for mail in sink.mails}) == 1
