"""Events that were over long ago, made through the product's own statements and then moved into the past."""

from collections.abc import Sequence
from datetime import timedelta

from shared.channel import Channel
from shared.event import EventStatus
from shared.ids import EventId
from shared.store.database import Database
from shared.store.expiry import expire_locked, lock_expired
from shared.store.inbox_delivery import enter_siblings
from shared.store.routing import End, finish_if_queued
from tests.factories import accept_events, create_jobs, new_event, new_job

PAST = timedelta(seconds=-1)


async def finished_events(
    database: Database, count: int, age: timedelta, *, email_waits: bool = False, scope_id: int = 1
) -> list[EventId]:
    """``count`` events of ``age``, each SENT in-app and FAILED by email, or still to be mailed."""
    event_ids = await accept_events(database, [new_event(scope_id=scope_id) for _ in range(count)])
    email_expires = timedelta(hours=1) if email_waits else PAST
    for channel, expires_in in ((Channel.INAPP, timedelta(hours=1)), (Channel.EMAIL, email_expires)):
        await create_jobs(
            database,
            [
                new_job(channel=channel, event_id=event_id, expires_in=expires_in, scope_id=scope_id)
                for event_id in event_ids
            ],
        )
    async with database.hot() as pg, pg.transaction():
        await finish_if_queued(pg, [End(event_id, EventStatus.ROUTED) for event_id in event_ids])
        await enter_siblings(pg, event_ids)
        await expire_locked(pg, Channel.EMAIL, await lock_expired(pg, Channel.EMAIL, count))
    await make_older(database, event_ids, age)
    return event_ids


async def make_older(database: Database, event_ids: Sequence[EventId], age: timedelta) -> None:
    """Let everything that happened to the events have happened ``age`` earlier."""
    async with database.hot() as pg, pg.transaction():
        await pg.execute(
            """
            UPDATE events
            SET received_at = received_at - $2::interval, announced_at = announced_at - $2::interval,
                send_at = send_at - $2::interval, routed_at = routed_at - $2::interval
            WHERE event_id = ANY ($1)
            """,
            event_ids,
            age,
        )
        await pg.execute(
            """
            UPDATE outgoing
            SET created_at = created_at - $2::interval, finished_at = finished_at - $2::interval
            WHERE event_id = ANY ($1)
            """,
            event_ids,
            age,
        )
