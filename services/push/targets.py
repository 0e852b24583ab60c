"""Which of a recipient's targets a round rings, and what earlier rounds have settled already. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.job import JobReason
from shared.store.ringing import TargetState
from shared.verdict import VERDICT_WORDS, Delivered, Rejected

_DELIVERED = VERDICT_WORDS[Delivered]
_REJECTED = VERDICT_WORDS[Rejected]


@dataclass(frozen=True, slots=True)
class Earlier:
    """What earlier rounds of the job came to, for targets that are not rung again.

    ``rung``: some target was. ``delivered``: some target has it. ``refusal``: a living one refused it for good.
    """

    rung: bool = False
    delivered: bool = False
    refusal: Rejected | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The targets of one round (each has a token), and what is settled."""

    ring: tuple[TargetState, ...]
    earlier: Earlier


def choose(states: Sequence[TargetState]) -> Choice:
    """Whom to ring: those that have not got it and have not refused it.

    Where no target was left open the job had ended, so this is a replay: then those that refused are asked again.
    """
    any_open = any(state.verdict not in ("", _DELIVERED, _REJECTED) and not state.delivered for state in states)
    registered = [state for state in states if state.token is not None and not state.delivered]
    settled = [state for state in registered if any_open and state.verdict == _REJECTED]
    refusal = Rejected(JobReason(settled[0].reason or JobReason.REJECTED)) if settled else None
    return Choice(
        tuple(state for state in registered if state not in settled),
        Earlier(any(state.verdict for state in states), any(state.delivered for state in states), refusal),
    )
