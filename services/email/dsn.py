"""Delivery status notifications (RFC 3464, and RFC 6533 for addresses beyond ASCII)."""

import re
from collections.abc import Iterator
from itertools import islice

from services.email.failure import MOST_RECIPIENTS, Failure, Fate, judge_failure, read_address
from services.email.parts import Part

KINDS = ("message/delivery-status", "message/global-delivery-status", "message/delivery-report")
_FIELD = re.compile(r"([\w-]+)[ \t]*:[ \t]*(.*)")
_XTEXT = re.compile(r"\+(2B|3D)", re.IGNORECASE)
_UNICODE = re.compile(r"\\x\{([0-9A-Fa-f]{2,6})\}")
_STATUS = re.compile(r"(?<![\d.])([245])\.(\d{1,3})\.(\d{1,3})(?![\d.])")
_BEGINS = ("final-recipient", "original-recipient")
_ABOUT_RECIPIENT = {*_BEGINS, "action", "status", "diagnostic-code", "x-actual-recipient", "remote-recipient"}
MOST_FIELDS = 5_000


def read_dsn(mail: Part) -> list[Failure] | None:
    """What a status notification says of each recipient; None when ``mail`` has none in it."""
    reports = [part for part in mail.own_parts() if part.kind in KINDS]
    if not reports:
        return None
    return list(islice((failure for report in reports for failure in read_fields(report.text())), MOST_RECIPIENTS))


def read_fields(text: str) -> list[Failure]:
    """What the fields in ``text`` say of each recipient."""
    failures = (failure for fields in _recipients(text) if (failure := _read(fields)) is not None)
    return list(islice(failures, MOST_RECIPIENTS))


def envelope_id(mail: Part) -> str:
    """The name that the sender of what bounced gave to it (ENVID); '' when none came back."""
    for part in mail.own_parts():
        if part.kind in KINDS:
            for name, value in _fields(part.text()):
                if name == "original-envelope-id":
                    return _XTEXT.sub(lambda found: chr(int(found[1], 16)), value)
    return ""


def _recipients(text: str) -> Iterator[dict[str, str]]:
    """The fields of each recipient, also where the blank line between them is missing."""
    fields: dict[str, str] = {}
    for name, value in _fields(text):
        if name not in _ABOUT_RECIPIENT and not fields:
            continue
        if not name or (name in fields and name in _BEGINS):
            if fields:
                yield fields
            fields = {}
        if name:
            fields.setdefault(name, value)
    if fields:
        yield fields


def _fields(text: str) -> list[tuple[str, str]]:
    """Each field with its folded lines joined; a blank line is the field ''."""
    fields: list[tuple[str, str]] = []
    for line in text.splitlines()[:MOST_FIELDS]:
        if not line.strip():
            fields.append(("", ""))
        elif line[:1] in " \t" and fields and fields[-1][0]:
            fields[-1] = fields[-1][0], f"{fields[-1][1]} {line.strip()}"
        elif found := _FIELD.match(line):
            fields.append((found[1].lower(), found[2].strip()))
    return fields


def _read(fields: dict[str, str]) -> Failure | None:
    address = _whom(fields)
    if address is None and "action" not in fields and "status" not in fields:
        return None
    status = _status(fields.get("status", ""))
    fate = _fate(fields.get("action", ""), status)
    diagnostic = fields.get("diagnostic-code", "")
    return judge_failure(address or "", fate, status, diagnostic)


def _whom(fields: dict[str, str]) -> str | None:
    """The address that was written to. The one that it was rewritten to is nobody's whom we know."""
    for name in ("original-recipient", "final-recipient", "x-actual-recipient", "remote-recipient"):
        value = fields.get(name, "")
        if name == "original-recipient":
            value = _XTEXT.sub(lambda found: chr(int(found[1], 16)), value)
        address = read_address(_UNICODE.sub(_character, value.rpartition(";")[2]))
        if address is not None:
            return address
    return None


def _character(found: re.Match[str]) -> str:
    number = int(found[1], 16)
    return chr(number) if number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF else "\ufffd"


def _fate(action: str, status: str | None) -> Fate:
    word = action.strip().lower()
    if word.startswith(("deliver", "relay", "expand", "success")):
        return Fate.ARRIVED
    if word.startswith(("delay", "defer", "transient")):
        return Fate.WAITS
    if not word.startswith("fail") and status is not None and not status.startswith("5"):
        return Fate.ARRIVED if status.startswith("2") else Fate.WAITS
    return Fate.FAILED


def _status(text: str) -> str | None:
    found = _STATUS.search(text)
    return found[0] if found else None
