"""When a job is tried again: pure arithmetic over the rule's retry policy."""

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from shared.channel import Channel

OnUnknown = Literal["resend", "hold"]

UNANSWERED_CEILING = timedelta(minutes=15)
UNANSWERED_STEP = timedelta(seconds=60)
RETRY_AFTER_CEILING = timedelta(hours=6)
"""A provider may ask for patience, not for ever: the expiry of most rules is 24 h."""
UNKNOWN_LIMITS = {Channel.EMAIL: 3, Channel.PUSH: 8, Channel.INAPP: 3}
"""How many unanswered hand-overs a job survives under ``resend``."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a *deferred* job is tried and how long it waits in between.

    The n-th wait is ``backoff`` · ``multiplier``ⁿ⁻¹, at most ``ceiling``, spread by ± ``jitter`` (0.2 = 20 %).
    """

    attempts: int
    backoff: timedelta
    multiplier: float = 1.0
    jitter: float = 0.2
    ceiling: timedelta = timedelta(hours=1)

    def horizon(self) -> timedelta:
        """The time from the first attempt to the last, without jitter."""
        return sum((self._wait(n) for n in range(1, self.attempts)), timedelta())

    def wait_after(self, rounds: int, retry_after: timedelta | None, rng: random.Random) -> timedelta:
        """The wait after ``rounds`` counted rounds; a provider's own ``retry_after`` is honoured as a minimum."""
        wait = _spread(self._wait(rounds), self.jitter, rng)
        if retry_after is None:
            return wait
        return max(min(retry_after, RETRY_AFTER_CEILING), timedelta(seconds=1))

    def _wait(self, rounds: int) -> timedelta:
        # The exponent is bounded so that a large round number cannot overflow a float.
        factor = self.multiplier ** min(max(rounds - 1, 0), 64)
        return timedelta(seconds=min(self.backoff.total_seconds() * factor, self.ceiling.total_seconds()))


DEFAULT_POLICIES = {
    Channel.INAPP: RetryPolicy(attempts=3, backoff=timedelta(seconds=60)),
    Channel.PUSH: RetryPolicy(attempts=3, backoff=timedelta(seconds=60)),
    # Receivers greylist: a horizon of minutes would fail mail that only has to wait.
    Channel.EMAIL: RetryPolicy(attempts=8, backoff=timedelta(minutes=5), multiplier=2.0),
}


@dataclass(frozen=True, slots=True)
class Terms:
    """What the rule promised for one job when it was routed; stored with its content."""

    retry: RetryPolicy
    on_unknown: OnUnknown = "resend"


def wait_unanswered(
    unanswered: int, rng: random.Random, step: timedelta = UNANSWERED_STEP, retry_after: timedelta | None = None
) -> timedelta:
    """The wait after the ``unanswered``-th silence in a row (1, 2, …): ``step`` · 2ⁿ⁻¹, at most 15 minutes.

    A service's own ``retry_after`` is honoured as a minimum, up to those 15 minutes: it may be back earlier.
    """
    seconds = step.total_seconds() * 2.0 ** min(max(unanswered - 1, 0), 16)
    wait = _spread(min(timedelta(seconds=seconds), UNANSWERED_CEILING), 0.2, rng)
    return wait if retry_after is None else max(wait, min(retry_after, UNANSWERED_CEILING))


def _spread(wait: timedelta, jitter: float, rng: random.Random) -> timedelta:
    return wait * (1 + rng.uniform(-jitter, jitter))
