"""Whom to believe about a circuit: recipients, each of them once. Pure.

Who gets pushes chooses the targets, and may choose ones that never answer, or that take us for somebody else. So what
one recipient meets, on however many targets and in however many jobs, is first of all its own matter:

- It holds up that recipient alone: a silence behind a breaker of its own, a refusal behind a pause that is seen.
- It holds up everybody when ENOUGH recipients in a row met the same, with nobody in between who got through.
- Whether it is over, others try first: whoever met it waits YIELD_SECONDS longer for the probe.

A real outage, or a wrong credential, meets the next ENOUGH recipients; a handful of them cannot stop the others.
"""

from shared.ids import ScopeId

ENOUGH = 5
"""So many recipients in a row are believed."""
YIELD_SECONDS = 10.0
"""A probe is offered within a second or three of its time: this leaves it to those who have something new to tell."""

MOST = 1_000
"""Of an outage so long that more of them have tried, the first are remembered."""

Recipient = tuple[ScopeId, str]


class Witnesses:
    """The recipients that met the same trouble in a row."""

    def __init__(self) -> None:
        self._met: set[Recipient] = set()

    def __contains__(self, recipient: Recipient | None) -> bool:
        """Whether ``recipient`` has met it."""
        return recipient in self._met

    @property
    def are_enough(self) -> bool:
        """Whether they are believed."""
        return len(self._met) >= ENOUGH

    def note(self, recipient: Recipient) -> bool:
        """``recipient`` has met it; whether that is news."""
        if recipient in self._met or len(self._met) >= MOST:
            return False
        self._met.add(recipient)
        return True

    def forget(self) -> None:
        """Somebody got through: what comes now begins a new row."""
        if self._met:
            self._met.clear()
