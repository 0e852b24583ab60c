"""Targets of another sender: one of them is a stranger that stays, most of them means that our credentials are wrong.

A token of another Firebase project, or a browser that subscribed with another VAPID key, is refused as wrong
credentials are. Pausing the sender for each of them would hold up everybody else's messages for one target's sake.
"""

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from shared.logs import get_logger
from shared.verdict import Delivered, Rejected, SenderBlocked, Verdict

log = get_logger()

MOST_TALLIES = 4096

ENOUGH = 2
"""So many friends met earlier vouch for us, and no more: what was taken yesterday says little of today."""

_OF_ANOTHER = re.compile(r"mismatch|do(?:es)? not correspond", re.IGNORECASE)


@dataclass(slots=True)
class _Tally:
    """What targets said of one credential lately: those that took a message, and the strangers since then."""

    taken: int = 0
    refused: int = 0

    def note(self, friends: int, strangers: int) -> None:
        """Take in what was said in one attempt."""
        self.taken = max(min(self.taken + friends, ENOUGH), friends)
        self.refused = strangers if friends else self.refused + strangers


class Strangers:
    """Remembers, for each credential on each circuit, whether targets took our messages or called us somebody else."""

    def __init__(self) -> None:
        self._tallies: OrderedDict[tuple[str, str], _Tally] = OrderedDict()

    def judge(self, circuit: str, credential: str, verdicts: Sequence[Verdict]) -> list[Verdict]:
        """``verdicts`` of one attempt's targets: a stranger among friends is refused for good, and kept.

        While there are not more friends than strangers it is the credential that is wrong, and the sender that waits.
        """
        tally = self._tallies.setdefault((circuit, credential), _Tally())
        self._tallies.move_to_end((circuit, credential))
        if len(self._tallies) > MOST_TALLIES:
            self._tallies.popitem(last=False)
        strangers = sum(_is_strangers(verdict) for verdict in verdicts)
        tally.note(sum(isinstance(verdict, Delivered) for verdict in verdicts), strangers)
        if not strangers or tally.taken <= tally.refused:
            return list(verdicts)
        log.warning("push.targets_of_another_sender", circuit=circuit, count=strangers)
        return [
            Rejected(code=verdict.code, error=verdict.error) if _is_strangers(verdict) else verdict
            for verdict in verdicts
        ]


def _is_strangers(verdict: Verdict) -> bool:
    return isinstance(verdict, SenderBlocked) and _OF_ANOTHER.search(f"{verdict.code} {verdict.error}") is not None
