"""The breakers of one process: one for each circuit, and one for each recipient whom a circuit does not answer."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from shared.delivery.breaker import ANY, Breaker
from shared.delivery.witnesses import Recipient
from shared.logs import get_logger

log = get_logger()

MOST_CIRCUITS = 4_096
MOST_RECIPIENTS = 4_096

_Key = TypeVar("_Key")


class Breakers:
    """What gets no answer, and when to try again.

    A silence counts for the circuit once a recipient, and each time for that recipient, who is left alone there after
    five of its own. Where nobody says whose it is (``recipient`` None), it is the circuit's each time.
    """

    def __init__(self, probe_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._probe_seconds = probe_seconds
        self._clock = clock
        self._of: OrderedDict[str, Breaker] = OrderedDict()
        self._own: OrderedDict[tuple[str, Recipient], Breaker] = OrderedDict()

    def room(self, circuit: str) -> int:
        """How many jobs may start on ``circuit``: ANY, 1 (a probe) or 0."""
        breaker = self._of.get(circuit)
        return ANY if breaker is None else breaker.room()

    def admit(self, circuit: str, recipient: Recipient | None) -> float:
        """0 when a job for ``recipient`` goes through ``circuit`` now, else the seconds it has to wait."""
        breaker = self._of.get(circuit)
        if breaker is None:
            return 0.0
        own = self._own.get((circuit, recipient)) if self._own and recipient is not None else None
        # Asked first: a probe that the circuit's breaker holds back would be the recipient's own, lost.
        if own is not None and breaker.wait_seconds(recipient) <= 0 and (wait := own.admit()) > 0:
            return wait
        return breaker.admit(recipient)

    def note_answer(self, circuit: str, recipient: Recipient | None, *, through: bool) -> None:
        """``circuit`` answered; ``through``: and it took the message."""
        if self._own and recipient is not None:
            self._own.pop((circuit, recipient), None)
        self._breaker(circuit).note_answer(through=through)

    def note_failure(self, circuit: str, recipient: Recipient | None, code: str | None) -> None:
        """Nobody answered on ``circuit``, or the service would not work."""
        if recipient is not None and self._own_of(circuit, recipient).note_failure():
            log.info("delivery.recipient_left_alone", circuit=circuit, code=code)
        if self._breaker(circuit).note_failure(recipient):
            log.warning("delivery.breaker_opened", circuit=circuit, code=code)

    def got_through_within(self, circuit: str, seconds: float) -> bool:
        """Whether ``circuit`` took something in the last ``seconds``."""
        breaker = self._of.get(circuit)
        return breaker is not None and breaker.got_through_within(seconds)

    def _breaker(self, circuit: str) -> Breaker:
        return self._kept(self._of, circuit, MOST_CIRCUITS)

    def _own_of(self, circuit: str, recipient: Recipient) -> Breaker:
        return self._kept(self._own, (circuit, recipient), MOST_RECIPIENTS)

    def _kept(self, breakers: OrderedDict[_Key, Breaker], key: _Key, most: int) -> Breaker:
        """The breaker at ``key``, made where there is none: for the one unheard of for longest, if need be."""
        found = breakers.get(key)
        if found is None:
            found = breakers[key] = Breaker(self._probe_seconds, self._clock)
            if len(breakers) > most:
                breakers.popitem(last=False)
        breakers.move_to_end(key)
        return found
