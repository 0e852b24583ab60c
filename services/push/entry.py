"""The entry before the buzz: push finishes the event's in-app job itself, if nobody else has begun to."""

import time
from datetime import timedelta

import asyncpg

from shared.channel import Channel
from shared.delivery.provider import Parcel
from shared.delivery.record import log_entered
from shared.ids import format_job_id
from shared.logs import get_logger
from shared.store.database import Database
from shared.store.inbox_delivery import enter_siblings

log = get_logger()


async def enter_sibling(database: Database, parcel: Parcel, within: timedelta) -> None:
    """Have the entry of the parcel's event written, if there is to be one. Raises StoreUnavailable.

    An entry that cannot be written is in-app's to try again: the phone rings all the same.
    """
    began = time.monotonic()
    try:
        async with database.hot(within) as pg:
            entered = await enter_siblings(pg, [parcel.event_id])
    except asyncpg.PostgresError:
        log.exception("push.entry_failed", job_id=format_job_id(parcel.event_id, Channel.INAPP))
        return
    log_entered(entered, timedelta(seconds=time.monotonic() - began))
