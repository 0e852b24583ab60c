"""Waits between attempts: pure arithmetic, held against its promises."""

import random
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from shared.channel import Channel
from shared.retry import (
    DEFAULT_POLICIES,
    RETRY_AFTER_CEILING,
    UNANSWERED_CEILING,
    RetryPolicy,
    wait_unanswered,
)

seeds = st.integers(0, 2**32).map(random.Random)
policies = st.builds(
    RetryPolicy,
    attempts=st.integers(1, 100),
    backoff=st.timedeltas(timedelta(seconds=1), timedelta(hours=1)),
    multiplier=st.floats(1, 10),
    jitter=st.floats(0, 0.5),
)


@given(policies, st.integers(1, 10_000), seeds)
def test_a_wait_is_never_negative_and_never_beyond_the_ceiling_and_its_jitter(
    policy: RetryPolicy, rounds: int, rng: random.Random
) -> None:
    wait = policy.wait_after(rounds, None, rng)
    assert timedelta() < wait <= policy.ceiling * (1 + policy.jitter) + timedelta(microseconds=1)


@given(policies, st.integers(1, 99))
def test_without_jitter_waits_never_shrink(policy: RetryPolicy, rounds: int) -> None:
    steady = RetryPolicy(policy.attempts, policy.backoff, policy.multiplier, 0.0, policy.ceiling)
    rng = random.Random(1)
    assert steady.wait_after(rounds, None, rng) <= steady.wait_after(rounds + 1, None, rng)


@given(policies, st.timedeltas(timedelta(days=-1), timedelta(days=9)), seeds)
def test_what_the_provider_asks_for_is_honoured_and_clamped(
    policy: RetryPolicy, asked: timedelta, rng: random.Random
) -> None:
    wait = policy.wait_after(1, asked, rng)
    assert timedelta(seconds=1) <= wait <= RETRY_AFTER_CEILING
    if timedelta(seconds=1) <= asked <= RETRY_AFTER_CEILING:
        assert wait == asked


@given(st.integers(1, 32_767), seeds)
def test_silence_doubles_the_wait_up_to_a_quarter_of_an_hour(silences: int, rng: random.Random) -> None:
    expected = min(timedelta(seconds=60) * 2 ** min(silences - 1, 20), UNANSWERED_CEILING)
    assert expected * 0.8 <= wait_unanswered(silences, rng) <= expected * 1.2


@given(st.integers(1, 10_000), seeds, st.timedeltas(timedelta(), timedelta(days=99)))
def test_a_service_that_is_down_is_left_alone_for_as_long_as_it_asks_but_not_for_ever(
    silences: int, rng: random.Random, asked: timedelta
) -> None:
    ceiling = timedelta(minutes=15)
    wait = wait_unanswered(silences, rng, retry_after=asked)
    assert min(asked, ceiling) <= wait <= ceiling * 1.2


def test_mail_outlasts_an_afternoon_of_greylisting() -> None:
    assert DEFAULT_POLICIES[Channel.EMAIL].horizon() >= timedelta(hours=4)
