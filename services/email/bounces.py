"""What a mail that came back says: who did not get what, and why. People and what answers for them say nothing."""

from collections.abc import Sequence
from dataclasses import replace

from services.email.dsn import read_dsn
from services.email.failure import Failure, Fate, judge_failure, quotes_a_reply
from services.email.feedback import read_feedback
from services.email.parts import Part, read_mail
from services.email.plaintext import (
    addressed_in,
    read_plaintext,
    read_unmarked_dsn,
    speaks_for_a_system,
    told_by,
    words_about,
    written_to,
)
from services.email.replies import Cause


def read_report(raw: bytes) -> list[Failure]:
    """One entry per recipient that the mail in ``raw`` reports about; [] when it is no report. Never raises."""
    return report_of(read_mail(raw), raw)


def report_of(mail: Part, raw: bytes) -> list[Failure]:
    """What ``read_report`` says, of a ``mail`` that was read from ``raw`` already."""
    feedback = read_feedback(mail)
    if feedback is not None:
        return feedback
    notified = _notified(mail) or read_unmarked_dsn(mail)
    if notified:
        addresses = list(dict.fromkeys(failure.address for failure in notified if failure.address))
        told = told_by(mail)
        return [_completed(failure, addresses, told, mail) for failure in notified]
    return read_plaintext(mail, raw)


def classify(raw: bytes) -> list[tuple[str, str, str | None]]:
    """(address, class, status) of each recipient in the mail."""
    return [(failure.address, failure.kind, failure.status) for failure in read_report(raw)]


def _notified(mail: Part) -> list[Failure] | None:
    """What status notifications in ``mail`` say; those that a person passes on say nothing to us."""
    if mail.kind == "multipart/report" or speaks_for_a_system(mail):
        return read_dsn(mail)
    return None


def _completed(failure: Failure, addresses: Sequence[str], told: str, mail: Part) -> Failure:
    """``failure`` with what the notification left out, from the words for people that come with it."""
    named = failure.address or next(iter(addressed_in(mail)), "")
    failure = replace(failure, address=written_to(named, told))
    if failure.fate is not Fate.FAILED or failure.words:
        return failure
    words = words_about(named, addresses, told)
    judged = judge_failure(failure.address, failure.fate, failure.status, words)
    if failure.cause is Cause.RECIPIENT and judged.cause is not Cause.TRANSIENT and not quotes_a_reply(words):
        return failure  # Its status says more than prose, in which anything may stand.
    return judged
