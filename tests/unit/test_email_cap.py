"""A sender's cap: even distances, no more than the patience on the spot, and an orderly way back."""

from datetime import timedelta

import pytest

from services.email.cap import LONGEST_HOLD, Cap
from shared.delivery.provider import Held


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_mails_that_come_at_once_go_at_even_distances(clock: Clock) -> None:
    cap = Cap(1.0, clock)
    assert [cap.take("a", 4) for _ in range(5)] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert isinstance(cap.take("a", 4), Held)
    assert cap.take("b", 4) == 0.0
    clock.now += 10
    assert cap.take("a", 4) == 0.0


def test_those_sent_away_come_back_one_after_the_other(clock: Clock) -> None:
    cap = Cap(0.0, clock)
    assert cap.take("a", 2) == 0.0
    waits = [cap.take("a", 2) for _ in range(4)]
    assert waits == [Held(timedelta(seconds=seconds)) for seconds in (0.5, 1.0, 1.5, 2.0)]
    for _ in waits:
        clock.now += 0.5
        assert cap.take("a", 2) == 0.0


def test_nobody_is_sent_away_for_longer_than_a_minute(clock: Clock) -> None:
    cap = Cap(1.0, clock)
    assert cap.take("a", 0.01) == 0.0
    assert {cap.take("a", 0.01) for _ in range(3)} == {Held(timedelta(seconds=LONGEST_HOLD))}


def test_never_more_than_the_cap_in_any_second_however_often_it_is_asked(clock: Clock) -> None:
    cap, sent = Cap(1.0, clock), []
    for _ in range(5_000):
        clock.now += 0.003
        if not isinstance(place := cap.take("a", 10), Held):
            sent.append(clock.now + place)
    assert 140 <= len(sent) <= 162
    assert min(later - one for one, later in zip(sent, sent[10:], strict=False)) > 0.999
