"""Identifiers: what they look like outside, and that they read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.channel import CHANNEL_NUMBERS, Channel
from shared.ids import (
    format_attempt_id,
    format_event_id,
    format_job_id,
    job_uuid,
    new_event_id,
    parse_event_id,
    parse_job_id,
)


@given(st.sampled_from(Channel))
def test_ids_read_back_as_what_they_were(channel: Channel) -> None:
    event_id = new_event_id()
    assert parse_event_id(format_event_id(event_id)) == event_id
    assert parse_job_id(format_job_id(event_id, channel)) == (event_id, channel)


def test_every_id_is_a_uuid_of_version_7() -> None:
    event_id = new_event_id()
    assert event_id.version == 7
    assert job_uuid(event_id, Channel.PUSH).version == 7
    assert format_attempt_id(event_id, Channel.EMAIL, 1, 0)[4:][12] == "7"


def test_ids_of_one_process_sort_as_they_were_made() -> None:
    made = [new_event_id() for _ in range(50)]
    assert [event_id.int >> 64 for event_id in made] == sorted(event_id.int >> 64 for event_id in made)


def test_each_attempt_has_its_own_id_and_keeps_it() -> None:
    event_id = new_event_id()
    ids = [
        format_attempt_id(event_id, channel, seq, target) for channel in Channel for seq in (1, 2) for target in (0, 1)
    ]
    assert len(set(ids)) == len(ids)
    assert format_attempt_id(event_id, Channel.EMAIL, 1, 0) == format_attempt_id(event_id, Channel.EMAIL, 1, 0)


@pytest.mark.parametrize("text", ["", "evt_", "evt_xyz", "job_" + "0" * 32, "evt_" + "0" * 31 + "1", "evt_" + "A" * 32])
def test_what_is_no_event_id_is_refused(text: str) -> None:
    assert parse_event_id(text) is None


def test_channel_numbers_fit_their_four_bits() -> None:
    assert set(CHANNEL_NUMBERS) == set(Channel)
    assert all(0 < number < 16 for number in CHANNEL_NUMBERS.values())
