"""What is put on the bus is what is taken from it, and nothing else is."""

import pytest

from shared.broker.bus import LONGEST_OUTAGE_REST_SECONDS, Rest
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
from shared.errors import PublishUnconfirmed, StoreUnavailable
from shared.ids import ScopeId, new_event_id
from shared.lifecycle import FIRST_PAUSE_SECONDS


def test_an_announcement_is_read_as_it_was_written() -> None:
    ids = (new_event_id(), new_event_id())
    assert decode_announcement(encode_announcement(ids), redelivered=True) == Announcement(ids, redelivered=True)


def test_an_announcement_made_again_says_so_to_a_release_that_knows_and_harms_none_that_does_not() -> None:
    ids = (new_event_id(),)
    assert decode_announcement(encode_announcement(ids, again=True), redelivered=False) == Announcement(ids, again=True)
    assert b"again" not in encode_announcement(ids)


@pytest.mark.parametrize(
    ("announcement", "suspect"),
    [
        (Announcement(()), False),
        (Announcement((), redelivered=True), True),
        (Announcement((), again=True), True),
    ],
)
def test_what_comes_a_second_time_is_suspect(announcement: Announcement, suspect: bool) -> None:
    assert announcement.is_suspect is suspect


def test_more_ids_than_a_message_may_have_are_undecodable() -> None:
    with pytest.raises(Undecodable, match="length"):
        decode_announcement(encode_announcement([new_event_id()] * (MAX_IDS_PER_MESSAGE + 1)), redelivered=False)


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


def test_a_failed_message_rests_longer_and_longer_only_while_postgres_is_away() -> None:
    rest, away = Rest(), StoreUnavailable("away")
    assert [rest.seconds(ValueError()) for _ in range(3)] == [FIRST_PAUSE_SECONDS] * 3
    rests = [rest.seconds(away) for _ in range(12)]
    assert rests == sorted(rests)
    assert rests[-1] == LONGEST_OUTAGE_REST_SECONDS
    rest.over()
    assert rest.seconds(away) == FIRST_PAUSE_SECONDS
