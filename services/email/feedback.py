"""Feedback reports (RFC 5965): somebody pressed the button that says spam."""

import re

from services.email.failure import MOST_RECIPIENTS, Failure, Fate, find_addresses, read_address
from services.email.parts import Part

KIND = "message/feedback-report"
_FIELD = re.compile(r"^([\w-]+)[ \t]*:[ \t]*(.*)$", re.MULTILINE)
_OF_A_PERSON = ("abuse", "fraud", "opt-out", "opt-out-list", "complaint", "spam", "other", "miscategorized", "virus")
_RECIPIENT = ("original-rcpt-to", "removal-recipient")
_HIDDEN_RECIPIENT = "x-hmxmroriginalrecipient"


def read_feedback(mail: Part) -> list[Failure] | None:
    """Whose complaint ``mail`` is; None when it is no feedback report, [] when it reports what no person said."""
    reports = [part for part in mail.own_parts() if part.kind == KIND]
    if not reports:
        return _read_note(mail)
    fields = [(name.lower(), value.strip()) for name, value in _FIELD.findall(reports[0].text())]
    kind = next((value.lower() for name, value in fields if name == "feedback-type"), "")
    if kind and kind.partition(" ")[0] not in _OF_A_PERSON:
        return []
    named = [address for name, value in fields if name in _RECIPIENT and (address := read_address(value))]
    whom = list(dict.fromkeys(named))[:MOST_RECIPIENTS] or _addressed(mail)[:MOST_RECIPIENTS]
    return [Failure(address, Fate.COMPLAINED, None, None, kind or "abuse") for address in whom or [""]]


def _read_note(mail: Part) -> list[Failure] | None:
    """The complaint that some providers send as a plain note with the message attached."""
    if not mail.header("subject").lower().startswith("complaint about message from"):
        return None
    hidden = next((address for part in mail.walk() if (address := read_address(part.header(_HIDDEN_RECIPIENT)))), None)
    whom = [hidden] if hidden else _addressed(mail)[:MOST_RECIPIENTS]
    return [Failure(address, Fate.COMPLAINED, None, None, "abuse") for address in whom or [""]]


def _addressed(mail: Part) -> list[str]:
    """Whom the message that is complained about was addressed to."""
    for part in list(mail.walk())[1:]:
        if whom := find_addresses(part.header("to")):
            return whom
    return []
