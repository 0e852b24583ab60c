"""Whose silence counts for whom: one recipient holds up itself, many in a row hold up all."""

import pytest

from shared.delivery.breaker import ANY, FIRST_REST_SECONDS, LONGEST_REST_SECONDS
from shared.delivery.breakers import MOST_CIRCUITS, Breakers
from shared.delivery.witnesses import ENOUGH, YIELD_SECONDS, Recipient
from shared.ids import ScopeId

PROBE_SECONDS = 10.0
HOST = "webpush push.example"


class Line:
    """One circuit under a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.breakers = Breakers(PROBE_SECONDS, lambda: self.now)

    def fails(self, *names: str) -> None:
        """Nobody answers one target of each of them."""
        for name in names:
            self.breakers.note_failure(HOST, somebody(name), "timeout")

    def waits(self, name: str | None) -> float:
        """How long a job for them has to wait; 0: it went."""
        return self.breakers.admit(HOST, None if name is None else somebody(name))

    def answers(self, name: str) -> None:
        """A target of theirs took it."""
        self.breakers.note_answer(HOST, somebody(name), through=True)


def somebody(name: str) -> Recipient:
    return ScopeId(1), name


def crowd(count: int) -> list[str]:
    return [f"attacker-{number}" for number in range(count)]


@pytest.fixture
def line() -> Line:
    return Line()


def test_one_recipients_silences_leave_alone_that_recipient_and_nobody_else(line: Line) -> None:
    line.fails(*["mallory"] * 100)
    assert line.waits("mallory") == pytest.approx(FIRST_REST_SECONDS)
    assert line.waits("victim") == 0 and line.waits(None) == 0
    assert line.breakers.room(HOST) == ANY


def test_a_handful_with_any_number_of_targets_cannot_open_it_for_others(line: Line) -> None:
    line.fails(*crowd(ENOUGH - 1) * 50)
    assert line.waits("victim") == 0
    assert line.breakers.room(HOST) == ANY


def test_enough_recipients_in_a_row_open_it_for_all(line: Line) -> None:
    line.fails(*crowd(ENOUGH))
    assert line.breakers.room(HOST) == 0
    assert line.waits("victim") == pytest.approx(FIRST_REST_SECONDS)


def test_somebody_who_gets_through_in_between_begins_the_row_anew(line: Line) -> None:
    for _ in range(3):
        line.fails(*crowd(ENOUGH - 1))
        line.answers("victim")
    assert line.waits("victim") == 0


def test_where_nobody_says_whose_silence_it_is_each_counts(line: Line) -> None:
    for _ in range(ENOUGH):
        line.breakers.note_failure(HOST, None, "unreachable")
    assert line.breakers.room(HOST) == 0


def test_those_who_opened_it_let_others_try_first(line: Line) -> None:
    line.fails(*crowd(ENOUGH))
    line.now += FIRST_REST_SECONDS
    assert line.waits("attacker-0") == pytest.approx(YIELD_SECONDS)
    assert line.waits("victim") == 0
    line.answers("victim")
    assert line.waits("attacker-0") == 0


def test_those_who_opened_it_try_when_nobody_else_came(line: Line) -> None:
    line.fails(*crowd(ENOUGH))
    line.now += FIRST_REST_SECONDS + YIELD_SECONDS
    assert line.waits("attacker-0") == 0
    assert line.waits("attacker-1") == pytest.approx(PROBE_SECONDS)


def test_an_answer_ends_what_a_recipient_had_to_wait_alone(line: Line) -> None:
    line.fails(*["bob"] * ENOUGH)
    line.now += FIRST_REST_SECONDS
    assert line.waits("bob") == 0
    line.answers("bob")
    assert line.waits("bob") == 0


def test_a_recipient_that_goes_on_failing_is_tried_ever_more_rarely_whoever_else_gets_through(line: Line) -> None:
    line.fails(*["mallory"] * ENOUGH)
    for _ in range(8):
        line.answers("victim")
        line.now += line.waits("mallory")
        assert line.waits("mallory") == 0
        line.fails("mallory")
    assert line.waits("mallory") == pytest.approx(LONGEST_REST_SECONDS)


def test_what_waits_for_the_circuit_does_not_use_up_its_own_try(line: Line) -> None:
    line.fails(*["bob"] * ENOUGH)
    line.now += FIRST_REST_SECONDS
    line.fails(*crowd(ENOUGH))
    assert line.waits("bob") == pytest.approx(FIRST_REST_SECONDS + YIELD_SECONDS)
    line.answers("victim")
    assert line.waits("bob") == 0


def test_any_number_of_hosts_that_somebody_makes_up_pushes_out_none_that_is_in_use(line: Line) -> None:
    line.answers("bob")
    for number in range(MOST_CIRCUITS):
        if number == MOST_CIRCUITS - ENOUGH:
            line.fails(*crowd(ENOUGH))
        line.breakers.note_failure(f"webpush {number}.push.example", somebody("mallory"), "connect")
    assert line.breakers.room(HOST) == 0
