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


LONGEST_ID = 255


def id_problem(text: object) -> str | None:
    """What is wrong with ``text`` as a recipient's id, or None when it is one; reads after the name of the field."""
    if not isinstance(text, str) or not text:
        return "must be a text of at least one character"
    if len(text) > LONGEST_ID:
        return f"is longer than {LONGEST_ID} characters"
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
        return "has a character in it that cannot be stored"
    return None
