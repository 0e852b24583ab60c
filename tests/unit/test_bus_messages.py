"""What is put on the bus is what is taken from it, and nothing else is."""

import pytest

from shared.broker.local import LocalBus
from shared.broker.messages import (
    MAX_IDS_PER_MESSAGE,
    Announcement,
    Undecodable,
    decode_announcement,
    decode_wake,
    encode_announcement,
    encode_wake,
    in_messages,
)
from shared.errors import PublishUnconfirmed
from shared.ids import ScopeId, new_event_id


def test_an_announcement_is_read_as_it_was_written() -> None:
    ids = (new_event_id(), new_event_id())
    assert decode_announcement(encode_announcement(ids), redelivered=True) == Announcement(ids, redelivered=True)


def test_a_wake_is_read_as_it_was_written() -> None:
    scopes = frozenset({ScopeId(3), ScopeId(1)})
    assert decode_wake(encode_wake(scopes)) == scopes
    assert decode_wake(encode_wake(())) == frozenset()


@pytest.mark.parametrize("body", [b"", b"{}", b"null", b'{"v": 2, "scope_ids": []}', b'{"v": 1, "scope_ids": ["1"]}'])
def test_what_is_no_wake_of_this_release_is_undecodable(body: bytes) -> None:
    with pytest.raises(Undecodable):
        decode_wake(body)


def test_a_message_with_more_than_we_know_is_still_readable() -> None:
    assert decode_wake(b'{"v": 1, "scope_ids": [4], "later": true}') == frozenset({4})


@pytest.mark.parametrize("count", [0, 1, MAX_IDS_PER_MESSAGE, MAX_IDS_PER_MESSAGE + 1])
def test_portions_hold_every_id_once_and_none_is_too_large(count: int) -> None:
    ids = [new_event_id() for _ in range(count)]
    portions = list(in_messages(ids))
    assert [event_id for portion in portions for event_id in portion] == ids
    assert all(0 < len(portion) <= MAX_IDS_PER_MESSAGE for portion in portions)


async def test_a_local_bus_that_nobody_empties_refuses_more() -> None:
    bus = LocalBus(max_waiting=2)
    await bus.announce([new_event_id()])
    await bus.announce([new_event_id()])
    with pytest.raises(PublishUnconfirmed, match="2 announcements are waiting"):
        await bus.announce([new_event_id()])
