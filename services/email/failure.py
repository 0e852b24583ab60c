"""What a report says became of one recipient, and which of the classes that is."""

import re
from dataclasses import dataclass
from enum import StrEnum

from services.email.phrases import topic_of
from services.email.replies import Cause, Stage, cause_of


class Fate(StrEnum):
    """What became of a mail that somebody reports about."""

    FAILED = "failed"
    """Given up."""
    WAITS = "delayed"
    """Still being tried: nothing changes."""
    ARRIVED = "none"
    """It got through, or it was never about that."""
    COMPLAINED = "complaint"
    """The recipient called it spam."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One recipient in a report. ``cause`` is set for FAILED only; ``words`` are the report's, for people."""

    address: str
    fate: Fate
    cause: Cause | None
    status: str | None
    words: str

    @property
    def kind(self) -> str:
        """The class in one word."""
        return self.cause.value if self.cause is not None else self.fate.value


LONGEST_WORDS = 1000
MOST_RECIPIENTS = 200
"""Of one report, so many are read: each becomes a receipt, and a mail of ours has one recipient."""
_ADDRESS = re.compile(r"[^\s<>()\[\],;:\"'`|=\u3000-\u303f\uff00-\uff20]{1,64}@(?:[\w-]{1,63}\.){1,8}[\w-]{1,63}")
_WHOLE = re.compile(
    r"""\s*<?((?:"[^"\n]{1,80}"|[^\s<>()\[\],;:"@]{1,80})@[^\s<>()\[\],;:"@]{1,255})>?\s*(?:\([^()]*\)\s*)?"""
)
_REPLY = re.compile(r"(?<![\d.])(?<!\d:)([45]\d\d)(?:[ -]+|(?=[\"'#<]))(?!\d{1,3}\.\d{1,3}\.\d{1,3}\.)")
_STATUS = re.compile(r"(?<![\d.])[45]\.\d{1,3}\.\d{1,3}(?![\d.])")
_VAGUE = re.compile(r"[45]\.0\.0|5\.5\.0|5\.3\.0")
_NOBODY_ANSWERED = re.compile(
    r"connect(ion)? (to .{0,80}: ?)?.{0,20}(refused|timed? ?out|reset)|no route to host|network is unreachable"
    r"|lost connection|connection (was )?(lost|dropped|closed)|operation timed out|conversation with .{0,80} timed out"
    r"|no answer from|host unreachable|unable to connect|deliver\w+ (time|timeout) (has )?expired|temporarily suspended"
    r"|(i\W?m )?not going to try again|too long in the queue|queue too long|queue(-| )lifetime|retry time"
    r"|retries exhausted",
    re.IGNORECASE,
)
_STAGES = (
    (
        re.compile(r"in reply to (end of )?(the )?(data|bdat)|after (end of )?data|end of data", re.IGNORECASE),
        Stage.EOD,
    ),
    (re.compile(r"in reply to (the )?mail from|after mail from|sender verify failed", re.IGNORECASE), Stage.MAIL),
    (
        re.compile(
            r"refused to talk to me|initial (server )?(connection|greeting)|in reply to (helo|ehlo)", re.IGNORECASE
        ),
        Stage.HELO,
    ),
)


def find_address(text: str) -> str | None:
    """The first mail address in ``text``, without what stands around it."""
    found = _ADDRESS.search(text[:LONGEST_WORDS])
    return None if found is None else found[0].strip(".'")


def read_address(text: str) -> str | None:
    """The address that ``text`` consists of, as RFC 5321 allows it: also with what ends an address among words."""
    found = _WHOLE.fullmatch(text[:LONGEST_WORDS])
    return find_address(text) if found is None else found[1].strip(".")


def find_addresses(text: str) -> list[str]:
    """All mail addresses in ``text``, each once, in their order."""
    return list(dict.fromkeys(found.strip(".'") for found in _ADDRESS.findall(text)))


def judge_failure(address: str, fate: Fate, status: str | None, words: str) -> Failure:
    """What it means that ``words`` were said of ``address``; a status in them counts where ``status`` says nothing."""
    words = " ".join(words.split())[:LONGEST_WORDS]
    if fate is not Fate.FAILED:
        return Failure(address, fate, None, status, words)
    told = status if status and not _VAGUE.fullmatch(status) else _status_in(words) or status
    return Failure(address, fate, _cause(told, words), told, words)


def quotes_a_reply(words: str) -> bool:
    """Whether a code or a status of SMTP stands in ``words``."""
    return _REPLY.search(words) is not None or _STATUS.search(words) is not None


def says_why(words: str) -> bool:
    """Whether ``words`` have anything in them that a cause can be read from."""
    return quotes_a_reply(words) or _NOBODY_ANSWERED.search(words) is not None or topic_of(words) is not None


def _cause(status: str | None, words: str) -> Cause:
    code, text = _reply_in(words)
    if code is None and _NOBODY_ANSWERED.search(words):
        return Cause.TRANSIENT
    if code is None:
        # What is not a reply of SMTP was said by a relay itself: it says no for good, unless its status is a 4.
        code = 450 if status is not None and status.startswith("4") else 550
    if status is not None and _status_in(text) is None and status[0] == str(code)[0]:
        text = f"{status} {text}"
    return cause_of(_stage(words), code, text)


def _reply_in(words: str) -> tuple[int | None, str]:
    """The last reply quoted in ``words``: reports go from the frame to what the far end really said."""
    found = list(_REPLY.finditer(words))
    if not found:
        return None, words
    begins = next(
        (one for one in found if words[: one.start()].rstrip().endswith(("said:", "was:", ";", "<<<"))), found[0]
    )
    return int(begins[1]), _REPLY.sub(" ", words[begins.end() :])


def _status_in(words: str) -> str | None:
    found = _STATUS.search(words)
    return found[0] if found else None


def _stage(words: str) -> Stage:
    return next((stage for pattern, stage in _STAGES if pattern.search(words)), Stage.RCPT)
