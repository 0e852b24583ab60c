"""A mail that came back becomes receipts: which job it is about, and whether that may be believed.

A return path is made by us for one job, so that what arrives at it is believed; one that is forged or too old is
not, whoever hands it in. A Message-ID in what came back names the job too, but everybody who got the mail knows it:
it counts only where an operator, or a signature, vouches for the report.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from services.email.bounces import report_of
from services.email.dsn import envelope_id
from services.email.failure import Failure, Fate, find_addresses
from services.email.parts import Part, read_mail
from services.email.returnpath import ReturnPaths, Validity
from shared.channel import Channel
from shared.ids import EventId, parse_job_id
from shared.store.database import HotConnection
from shared.store.receipts import Kept, NewReceipt, ReceiptSource, keep_if_new
from shared.store.routing import cut_detail

LONGEST_ID = 200
LONGEST_ADDRESS = 320
LONGEST_CODE = 64
_ENVELOPE_HEADERS = ("delivered-to", "x-original-to", "envelope-to", "x-envelope-to", "to")
_OUR_MESSAGE_ID = re.compile(r"<?([0-9a-f]{32})@")
_MESSAGE_ID_LINE = re.compile(r"^Message-ID: *<([0-9a-f]{32})@", re.MULTILINE | re.IGNORECASE)


class Taken(StrEnum):
    """What became of one mail that came in."""

    NEW = "new"
    """At least one receipt was kept."""
    KNOWN = "known"
    """It came before."""
    TOO_MANY = "too_many"
    """As many receipts as one mail may have are kept already."""
    NOT_A_REPORT = "not_a_report"
    """Nothing is to be done: a person, a vacation, a delay, a success."""
    NO_JOB = "no_job"
    """It is about no mail that we know."""
    FORGED = "forged"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One mail that came in, and from where. ``envelope_to``: whom the dialogue named, where there was one."""

    raw: bytes
    source: ReceiptSource
    envelope_to: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What a mail that came in reports about the mail of one event."""

    event_id: EventId
    source: ReceiptSource
    provider_id: str
    failures: Sequence[Failure]


def read_arrival(arrival: Arrival, paths: ReturnPaths, now: datetime) -> Report | Taken:
    """What ``arrival`` reports, or why nothing is to be kept of it. A hostile one takes two seconds of work."""
    mail = read_mail(arrival.raw)
    failures = [one for one in report_of(mail, arrival.raw) if one.fate in (Fate.FAILED, Fate.COMPLAINED)]
    if not failures:
        return Taken.NOT_A_REPORT
    event_id = _event_of(mail, arrival, paths, now)
    if isinstance(event_id, Taken):
        return event_id
    return Report(event_id, arrival.source, _provider_id(mail, arrival.raw, event_id), failures)


async def keep_report(pg: HotConnection, report: Report) -> Taken:
    """Keep ``report``; each recipient's part is a receipt of its own."""
    kept = [await keep_if_new(pg, _receipt(report, failure)) for failure in report.failures]
    return Taken.NEW if Kept.NEW in kept else Taken(kept[0].value)


def _event_of(mail: Part, arrival: Arrival, paths: ReturnPaths, now: datetime) -> EventId | Taken:
    """The event whose mail came back, or why it is not to be known."""
    for address in _arrived_at(mail, arrival.envelope_to):
        returned = paths.read(address, now)
        if returned is None:
            continue
        if returned.job is None:
            return Taken.EXPIRED if returned.validity is Validity.EXPIRED else Taken.FORGED
        return _event(returned.job) or Taken.NO_JOB
    if arrival.source is ReceiptSource.LISTENER:
        # Anybody can send to it: without a return path of ours nothing vouches for what it says.
        return Taken.FORGED
    return next((event for job in _jobs_named(mail) if (event := _event(job)) is not None), Taken.NO_JOB)


def _arrived_at(mail: Part, envelope_to: Sequence[str]) -> Iterator[str]:
    yield from envelope_to
    for name in _ENVELOPE_HEADERS:
        yield from find_addresses(mail.header(name))


def _jobs_named(mail: Part) -> Iterator[UUID]:
    """The jobs that the report names: by the envelope id that came back, or the Message-ID of the returned mail."""
    texts = [envelope_id(mail)]
    texts += [part.header("message-id") for part in list(mail.walk())[1:]]
    for text in texts:
        if found := _OUR_MESSAGE_ID.match(f"{text.strip()}@" if "@" not in text else text.strip()):
            yield UUID(hex=found[1])
    for part in mail.own_parts():
        if part.kind == "text/plain" and (found := _MESSAGE_ID_LINE.search(part.text())):
            yield UUID(hex=found[1].lower())


def _event(job: UUID) -> EventId | None:
    named = parse_job_id(f"job_{job.hex}")
    return named[0] if named is not None and named[1] is Channel.EMAIL else None


def _provider_id(mail: Part, raw: bytes, event_id: EventId) -> str:
    """What tells the report from others, the same when it comes twice: its own Message-ID, or else a hash of it.

    The event is in it, since anybody may write into a report what will stand in another one.
    """
    own = mail.header("message-id").strip()
    name = own if 0 < len(own) <= LONGEST_ID and own.isascii() else f"sha256:{hashlib.sha256(raw).hexdigest()}"
    return f"{event_id.hex} {name}"


def _receipt(report: Report, failure: Failure) -> NewReceipt:
    return NewReceipt(
        report.event_id,
        report.source,
        report.provider_id,
        cut_detail(failure.address)[:LONGEST_ADDRESS],
        failure.kind,
        None if failure.status is None else failure.status[:LONGEST_CODE],
        cut_detail(failure.words),
    )
