"""Targets of another sender: a few of them are strangers that stay, most of them mean that our credentials are wrong.

A token of another Firebase project, or a browser that subscribed with another VAPID key, is refused as wrong
credentials are. Pausing the sender for each of them would hold up everybody else's messages for one target's sake.
"""

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from shared.delivery.witnesses import Recipient
from shared.logs import get_logger
from shared.verdict import Delivered, Rejected, SenderBlocked, Verdict

log = get_logger()

MOST_TALLIES = 4096
MOST_RECIPIENTS = 64
LATELY_SECONDS = 900.0
"""What was said earlier says nothing of today's credentials."""

_What = TypeVar("_What")
_OF_ANOTHER = re.compile(r"mismatch|do(?:es)? not correspond", re.IGNORECASE)


@dataclass(slots=True)
class _Tally:
    """What recipients met lately with one credential: when each last took a message, since when each is a stranger."""

    taken: OrderedDict[Recipient, float] = field(default_factory=OrderedDict)
    refused: OrderedDict[Recipient, tuple[float, float]] = field(default_factory=OrderedDict)

    def note_taken(self, recipient: Recipient, now: float) -> None:
        """``recipient`` is a friend."""
        self.refused.pop(recipient, None)
        _put(self.taken, recipient, now)

    def vouched(self, recipient: Recipient, now: float) -> bool:
        """Note that ``recipient`` is a stranger; whether more others were friends than strangers meanwhile.

        That is since it is one. When it was none before, since anybody else was.
        """
        self.taken.pop(recipient, None)
        before = self.refused.get(recipient)
        if before is not None and before[1] > now - LATELY_SECONDS:
            since = before[0]
        else:
            since = max((last for _, last in self.refused.values()), default=0.0)
            before = (now, now)
        since = max(since, now - LATELY_SECONDS)
        _put(self.refused, recipient, (before[0], now))
        friends = sum(at > since for at in self.taken.values())
        return friends > sum(last > since for _, last in self.refused.values())


class Strangers:
    """Remembers, for each credential on each circuit, whose targets took our messages or called us somebody else."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tallies: OrderedDict[tuple[str, str], _Tally] = OrderedDict()

    def judge(
        self, circuit: str, credential: str, recipient: Recipient, verdicts: Sequence[Verdict], *, again: bool
    ) -> list[Verdict]:
        """``verdicts`` of one attempt's targets: a stranger among friends is refused for good, and kept.

        Friends are most of the recipient's own targets; or, when it happens ``again`` to this job, most of the other
        recipients meanwhile: the credential may just have become wrong, so the first time it waits. While nobody
        vouches for us it is the credential that is wrong, and the sender that waits.
        """
        tally = self._tallies.setdefault((circuit, credential), _Tally())
        self._tallies.move_to_end((circuit, credential))
        if len(self._tallies) > MOST_TALLIES:
            self._tallies.popitem(last=False)
        strangers = sum(is_strangers(verdict) for verdict in verdicts)
        friends = sum(isinstance(verdict, Delivered) for verdict in verdicts)
        if friends > strangers:
            tally.note_taken(recipient, self._clock())
        if not strangers:
            return list(verdicts)
        if friends <= strangers and not (tally.vouched(recipient, self._clock()) and again):
            return list(verdicts)
        log.warning("push.targets_of_another_sender", circuit=circuit, count=strangers)
        return [Rejected(code=one.code, error=one.error) if is_strangers(one) else one for one in verdicts]


def is_strangers(verdict: Verdict) -> bool:
    """Whether a target said that it is another sender's."""
    return isinstance(verdict, SenderBlocked) and _OF_ANOTHER.search(f"{verdict.code} {verdict.error}") is not None


def _put(noted: OrderedDict[Recipient, _What], recipient: Recipient, what: _What) -> None:
    noted[recipient] = what
    noted.move_to_end(recipient)
    if len(noted) > MOST_RECIPIENTS:
        noted.popitem(last=False)
