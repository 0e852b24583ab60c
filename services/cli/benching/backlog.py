"""The jobs of a run: mails of a few tenants, made by the statement the router makes them with."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from shared.channel import Channel
from shared.content import EmailContent
from shared.ids import ScopeId, new_event_id
from shared.job import JobReason, JobStatus, Lane
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.content import encode_content, encode_terms
from shared.store.database import Database
from shared.store.drained import checkpoint, vacuum
from shared.store.outgoing import NewJob, create_if_missing

CHANNEL = Channel.EMAIL
SCOPES = 4
"""Tenants in the backlog: a claim has to be fair, as in life."""
_BATCH = 2_000
_RECIPIENTS = 997
_WITHIN = timedelta(minutes=2)
_TEXT = "Hello Bob,\nyour session on linear algebra is booked for Thursday at nine.\nSee you there.\n"


async def fill(database: Database, count: int, *, durable_start: bool) -> None:
    """Make ``count`` due jobs. ``durable_start``: all of it is on the disk before anybody measures."""
    jobs = _jobs()
    for start in range(0, count, _BATCH):
        batch = [next(jobs) for _ in range(min(_BATCH, count - start))]
        async with database.hot(_WITHIN) as pg, pg.transaction():
            await create_if_missing(pg, batch)
    async with database.hot(_WITHIN) as pg:
        await vacuum(pg)
        if durable_start:
            await checkpoint(pg)


def _jobs() -> Iterator[NewJob]:
    terms = Terms(DEFAULT_POLICIES[CHANNEL])
    content = EmailContent("bob@inbox.example", "Your session is booked", _TEXT, f"<p>{_TEXT}</p>", "en")
    kept_terms, body, number = encode_terms(terms), encode_content(content), 0
    while True:
        yield NewJob(
            new_event_id(),
            ScopeId(number % SCOPES + 1),
            CHANNEL,
            JobStatus.PENDING,
            JobReason.NONE,
            Lane.TRANSACTIONAL,
            terms.retry.attempts,
            datetime.now(UTC) + timedelta(hours=24),
            "booking_confirmed",
            f"recipient-{number % _RECIPIENTS}",
            1,
            kept_terms,
            body,
            accepted_at=datetime.now(UTC),
        )
        number += 1
