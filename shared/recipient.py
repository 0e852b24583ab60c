"""The person an event is for, as the event itself names them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recipient:
    """One recipient: the tenant's own id for them, and what the event says about them.

    ``locale`` and ``timezone`` were checked where the event came in; None means the tenant's.
    """

    id: str
    name: str | None = None
    email: str | None = None
    locale: str | None = None
    timezone: str | None = None
