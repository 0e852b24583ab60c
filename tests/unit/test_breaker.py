"""A breaker's life, with a clock that the test moves."""

import pytest

from shared.delivery.breaker import ANY, FAILURES_TO_OPEN, FIRST_REST_SECONDS, LONGEST_REST_SECONDS, Breaker

PROBE_SECONDS = 10.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(PROBE_SECONDS, clock)


def opened(breaker: Breaker) -> Breaker:
    for _ in range(FAILURES_TO_OPEN):
        breaker.note_failure()
    assert breaker.room() == 0
    return breaker


def test_it_opens_at_silences_in_a_row_and_not_before(breaker: Breaker) -> None:
    assert [breaker.note_failure() for _ in range(FAILURES_TO_OPEN)] == [False] * (FAILURES_TO_OPEN - 1) + [True]
    assert breaker.room() == 0
    assert breaker.admit() == pytest.approx(FIRST_REST_SECONDS)


def test_an_answer_in_between_begins_the_count_anew(breaker: Breaker) -> None:
    for _ in range(5):
        for _ in range(FAILURES_TO_OPEN - 1):
            breaker.note_failure()
        breaker.note_answer(through=True)
    assert breaker.room() == ANY


def test_after_its_rest_one_job_goes_through_and_no_second(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    clock.now += FIRST_REST_SECONDS
    assert breaker.room() == 1
    assert breaker.admit() == 0
    assert breaker.room() == 0
    assert breaker.admit() == pytest.approx(PROBE_SECONDS)


def test_a_probe_that_gets_through_closes_it(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    clock.now += FIRST_REST_SECONDS
    breaker.admit()
    breaker.note_answer(through=True)
    assert breaker.room() == ANY and breaker.admit() == 0
    assert breaker.got_through_within(60)


def test_each_failed_probe_doubles_the_rest_up_to_its_limit(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    rests = []
    for _ in range(8):
        rests.append(breaker.admit())
        clock.now += rests[-1]
        assert breaker.admit() == 0
        breaker.note_failure()
    assert rests == pytest.approx([min(FIRST_REST_SECONDS * 2**n, LONGEST_REST_SECONDS) for n in range(8)])


def test_silences_of_jobs_sent_before_it_opened_do_not_lengthen_the_rest(breaker: Breaker) -> None:
    opened(breaker)
    assert not any(breaker.note_failure() for _ in range(20))
    assert breaker.admit() == pytest.approx(FIRST_REST_SECONDS)


def test_a_probe_that_tells_nothing_is_given_up(breaker: Breaker, clock: Clock) -> None:
    opened(breaker)
    clock.now += FIRST_REST_SECONDS
    breaker.admit()
    clock.now += PROBE_SECONDS
    assert breaker.room() == 1


def test_a_refusal_of_us_is_an_answer_and_nothing_that_got_through(breaker: Breaker) -> None:
    opened(breaker)
    breaker.note_answer(through=False)
    assert breaker.room() == ANY
    assert not breaker.got_through_within(60)


def test_what_got_through_is_forgotten_in_time(breaker: Breaker, clock: Clock) -> None:
    breaker.note_answer(through=True)
    clock.now += 59
    assert breaker.got_through_within(60)
    clock.now += 1
    assert not breaker.got_through_within(60)
