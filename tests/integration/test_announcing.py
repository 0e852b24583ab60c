"""From many requests at once to few messages: what is committed together is announced together."""

import asyncio
from collections.abc import Sequence

from services.ingest.announcer import IDS_PER_MESSAGE
from shared.broker.local import LocalBus
from shared.ids import EventId, parse_event_id
from shared.store.database import Database
from tests.factories import until
from tests.fakes.ingest import body, running_ingest

POSTS = 150


class CountingBus(LocalBus):
    """The bus of one process that remembers each message."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[list[EventId]] = []

    async def announce(self, event_ids: Sequence[EventId], *, again: bool = False) -> None:
        """Announce and remember."""
        self.messages.append(list(event_ids))
        await super().announce(event_ids, again=again)


async def test_a_flush_is_announced_in_one_message_and_every_event_once(database: Database) -> None:
    bus = CountingBus()
    async with running_ingest(database, bus) as ingest:

        async def post(number: int) -> EventId | None:
            answer = await ingest.live.post("/api/v1/events", json=body(idempotency_key=f"key-{number}"), timeout=30)
            assert answer.status_code == 202, answer.text
            return parse_event_id(answer.json()["id"])

        accepted = await asyncio.gather(*(post(number) for number in range(POSTS)))
        await until(lambda: sum(map(len, bus.messages)) >= POSTS)
        async with database.hot() as pg:
            # Everything of one transaction was received at its one instant.
            flushes = await pg.fetchval("SELECT count(DISTINCT received_at) FROM events")
    announced = [event_id for message in bus.messages for event_id in message]
    assert sorted(announced) == sorted(event_id for event_id in accepted if event_id)
    assert len(bus.messages) <= flushes
    assert max(map(len, bus.messages)) <= IDS_PER_MESSAGE
