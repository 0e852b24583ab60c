"""What stands in for every provider in a tenant's test half: the whole pipeline runs, and nobody is reached."""

from shared.content import EmailContent
from shared.delivery.provider import Parcel
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict

NAME = "simulator"
"""The word stored in ``attempts.provider``."""
DOMAIN = "simulator.waybill.test"
"""Addresses here say what shall happen to their mail; a mail to any other is taken."""

_BY_LOCAL_PART: dict[str, Verdict] = {
    "delivered": Delivered("simulated"),
    # Refused at once and not suppressed, so that a test can be run as often as one likes.
    "bounce": Rejected(code="550", error="5.1.1 simulated: no such user"),
    "defer": Deferred(code="451", error="4.7.1 simulated: not now"),
    "timeout-after-data": NoVerdict(handed_over=True, code="timeout", error="simulated: no answer to the final dot"),
    "blocked": SenderBlocked("relay", code="554", error="5.7.1 simulated: the relay is blocked"),
}


async def simulate(parcel: Parcel) -> Verdict:
    """What the simulator's address asks for; Delivered for every other recipient and channel."""
    content = parcel.content
    if not isinstance(content, EmailContent):
        return Delivered("simulated")
    local_part, _, domain = content.to_address.lower().rpartition("@")
    if domain != DOMAIN:
        return Delivered("simulated")
    return _BY_LOCAL_PART.get(local_part, Delivered("simulated"))
