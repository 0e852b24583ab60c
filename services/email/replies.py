"""From an SMTP reply to a verdict: coarse and on the safe side, so that nobody's address suffers in doubt.

What counts, and the first that says anything decides:

1. The first digit where it is no 5: 2 took it, 4 means not now, whatever the words.
2. The stage: before MAIL a refusal is about us, and at MAIL about our sender or the size, for nobody else is named yet.
3. The words: the first topic of the table in ``phrases`` that they speak of. Those of a dead address are believed only
   where neither code nor status nor stage names another cause.
4. The enhanced status. Some say little, and give way to words about the content.
5. Else it is the message, or with a code of the login we are.

Whatever comes out as a dead address is held against the words of ``doubts``, which may make something else of it.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from services.email.doubts import doubt_of
from services.email.phrases import topic_of
from services.email.topics import Topic
from shared.job import JobReason
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict


class Stage(StrEnum):
    """The step of the dialogue that a reply answers, or that was under way when the connection was lost."""

    CONNECT = "connect"
    """The connection and the server's banner; under smtps:// the TLS handshake too."""
    HELO = "helo"
    """EHLO or HELO, and STARTTLS with its handshake."""
    AUTH = "auth"
    """The login."""
    MAIL = "mail"
    """MAIL FROM: who it is from."""
    RCPT = "rcpt"
    """RCPT TO: whom it is for."""
    DATA = "data"
    """DATA and the mail itself, up to but without the final dot."""
    EOD = "eod"
    """The final dot: from here on the mail may have been taken."""


class Cause(StrEnum):
    """What a reply blames; the words of the classification that receipts use too."""

    ACCEPTED = "accepted"
    """Nothing: it was taken."""
    RECIPIENT = "permanent-recipient"
    """The address is dead."""
    MESSAGE = "permanent-message"
    """This message will not be taken; the address lives."""
    TRANSIENT = "transient"
    """Not now."""
    SENDER = "sender-side"
    """Us: account, network address, domain or set-up."""


_STATUS = re.compile(r"(?<![\w.])([245])\.(\d{1,3})\.(\d{1,3})(?!\w|\.\d)")
_LONGEST_PROVIDER_ID = 200
_OPENING = (Stage.CONNECT, Stage.HELO, Stage.AUTH)

_BY_TOPIC = {
    Topic.GAVE_UP: Cause.TRANSIENT,
    Topic.RECEIVER_BUSY: Cause.TRANSIENT,
    Topic.FORM: Cause.MESSAGE,
    Topic.TOO_BIG: Cause.MESSAGE,
    Topic.QUOTA: Cause.SENDER,
    Topic.FULL: Cause.TRANSIENT,
    Topic.RESTRICTED: Cause.MESSAGE,
    Topic.SENDER: Cause.SENDER,
    Topic.LOGIN: Cause.SENDER,
    Topic.ADDRESS: Cause.SENDER,
    Topic.LATER: Cause.TRANSIENT,
    Topic.SPAM: Cause.MESSAGE,
    Topic.HELD: Cause.MESSAGE,
    Topic.GONE: Cause.RECIPIENT,
    Topic.ABSENT: Cause.RECIPIENT,
}
"""What the words decide by themselves; CONTENT does not, it is weaker than most statuses."""

_BY_STATUS = {
    **dict.fromkeys(("1.0", "1.1", "1.2", "1.3", "1.6", "1.10", "4.1", "4.4", "7.17", "7.18"), Cause.RECIPIENT),
    **dict.fromkeys(("1.7", "1.8", "1.9", "4.5"), Cause.SENDER),
    **dict.fromkeys(("2.2", "3.1", "3.2", "4.3", "4.7"), Cause.TRANSIENT),
    **dict.fromkeys(("7.3", "7.4", "7.8", "7.9", "7.11", "7.57", "7.60", "7.64", "7.139", "2.252"), Cause.SENDER),
    **{f"7.{detail}": Cause.SENDER for detail in (*range(20, 33), *range(501, 531), *range(600, 800))},
}
"""RFC 3463 and its registry, RFC 7293, 7372 and 7505, and the ranges in which Exchange Online refuses senders."""

_WEAKER_THAN_CONTENT = ("7.3", "7.4", "7.8", "7.9", "7.11", "1.1", "1.2", "1.3", "1.6")
_SAYS_LITTLE = ("4.1", "1.0")
"""No answer from the host, and something about an address, says RFC 3463; Exchange Online says the one, and Cisco's
gateways the other, of mailboxes that the directory does not know."""
_OF_THE_MESSAGE = ("7.504", "7.505", "7.512")
_TOO_BIG = ("3.4", "2.3")
_OF_FROM = frozenset(("1.7", "1.8", "1.9", "7.20", "7.21", "7.22", "7.23", "7.24", "7.26", "7.60"))
"""Among those that blame us: the ones that mean our From address rather than login, network address or quota."""
_OF_A_DEAD_ADDRESS = (Topic.GONE, Topic.ABSENT)
_SUBJECT_MESSAGE = "6."
"""What RFC 3463 numbers with it is about the content of the message."""
_CODES_OF_LOGIN = (530, 535, 538)


def judge(stage: Stage, code: int, text: str) -> Verdict:
    """The verdict on a reply at ``stage``; an address is declared dead only where nothing else can be meant."""
    answer, error = str(code), f"at {stage}: {' '.join(text.split())}"
    if not 200 <= code <= 599 or 300 <= code <= 399:
        # Not a reply that SMTP knows here: after the final dot it may have meant yes.
        return NoVerdict(handed_over=stage is Stage.EOD, code=answer, error=error)
    reading = _Reading.of(stage, code, text)
    cause = reading.cause()
    match cause:
        case Cause.ACCEPTED if stage is not Stage.EOD:
            # A yes where we hoped for something else: only the one after the final dot takes the mail.
            return NoVerdict(handed_over=False, code=answer, error=error)
        case Cause.ACCEPTED:
            return Delivered(provider_id=_provider_id(text), code=answer)
        case Cause.TRANSIENT:
            if code == 421 or stage in (*_OPENING, Stage.MAIL):
                return NoVerdict(handed_over=False, code=answer, error=error, refused=True)
            return Deferred(code=answer, error=error)
        case Cause.SENDER:
            return SenderBlocked("sender" if reading.blames_from() else "relay", code=answer, error=error)
        case Cause.MESSAGE | Cause.RECIPIENT:
            reason = JobReason.PAYLOAD_TOO_LARGE if reading.is_too_big() else JobReason.REJECTED
            return Rejected(reason, target_dead=cause is Cause.RECIPIENT, code=answer, error=error)
    assert_never(cause)


def classify(stage: str, code: int, text: str) -> str:
    """What a reply blames, as one of the words of ``Cause``."""
    return cause_of(Stage(stage), code, text).value


def cause_of(stage: Stage, code: int, text: str) -> Cause:
    """What a reply blames."""
    return _Reading.of(stage, code, text).cause()


@dataclass(frozen=True, slots=True)
class _Reading:
    """One reply with its evidence laid out; ``status`` is without its first digit, which is the code's own."""

    stage: Stage
    code: int
    topic: Topic | None
    status: str | None

    @classmethod
    def of(cls, stage: Stage, code: int, text: str) -> "_Reading":
        if code < 500:
            return cls(stage, code, None, None)
        reading = cls(stage, code, topic_of(text), _status(code, text))
        if reading.cause() is Cause.RECIPIENT and (doubt := doubt_of(reading.topic, text)) is not None:
            return replace(reading, topic=doubt)
        return reading

    def cause(self) -> Cause:
        if 200 <= self.code <= 299:
            return Cause.ACCEPTED
        if self.code < 500:
            return Cause.TRANSIENT
        if self.stage in _OPENING:
            return Cause.SENDER
        if self.stage is Stage.MAIL:
            return self._cause_at_mail()
        if self.topic in _OF_A_DEAD_ADDRESS:
            return self._cause_beside_dead_address()
        if self.topic in _BY_TOPIC:
            return _BY_TOPIC[self.topic]
        if self._status_counts():
            return _BY_STATUS[str(self.status)]
        return self._cause_by_code()

    def _status_counts(self) -> bool:
        if self.topic is Topic.CONTENT and self.status in _WEAKER_THAN_CONTENT:
            return False
        if self.status in _SAYS_LITTLE:
            return self.topic is Topic.REFUSED
        return self.status in _BY_STATUS and self.status not in _OF_THE_MESSAGE

    def _cause_beside_dead_address(self) -> Cause:
        # Words of a dead address are believed only where neither code nor status names another cause.
        if self.code in _CODES_OF_LOGIN:
            return Cause.SENDER
        if self.is_too_big() or (self.status or "").startswith(_SUBJECT_MESSAGE):
            return Cause.MESSAGE
        if self.status in _BY_STATUS and self.status not in _OF_THE_MESSAGE:
            return _BY_STATUS[str(self.status)]
        if self.topic is Topic.ABSENT and self.stage is not Stage.RCPT:
            # They took the recipient first: "unavailable" is then but the stock phrase of 550.
            return Cause.MESSAGE
        return Cause.RECIPIENT

    def _cause_at_mail(self) -> Cause:
        # No recipient was named yet: whoever they do not know is our sender.
        if self.is_too_big():
            return Cause.MESSAGE
        if self.code in _CODES_OF_LOGIN:
            return Cause.SENDER
        return Cause.TRANSIENT if self.topic in (Topic.LATER, Topic.FULL) else Cause.SENDER

    def _cause_by_code(self) -> Cause:
        return Cause.SENDER if self.code in _CODES_OF_LOGIN else Cause.MESSAGE

    def is_too_big(self) -> bool:
        # At MAIL, 552 answers the size that we announced (RFC 1870).
        announced = self.stage is Stage.MAIL and self.code == 552 and self.topic is None
        return self.topic is Topic.TOO_BIG or self.status in _TOO_BIG or announced

    def blames_from(self) -> bool:
        """Whether our From address is to blame, rather than our login, network address or quota."""
        if self.stage in _OPENING or self.code in _CODES_OF_LOGIN:
            return False
        if self.topic in _BY_TOPIC and _BY_TOPIC[self.topic] is Cause.SENDER:
            return self.topic is Topic.SENDER
        if self.status in _BY_STATUS and _BY_STATUS[self.status] is Cause.SENDER:
            return self.status in _OF_FROM
        return self.stage is Stage.MAIL


def _status(code: int, text: str) -> str | None:
    for found in _STATUS.finditer(text):
        if int(found[1]) == code // 100:
            return f"{int(found[2])}.{int(found[3])}"
    return None


def _provider_id(text: str) -> str | None:
    """The server's words without the status: its name for the mail stands in them."""
    words = " ".join(_STATUS.sub("", text, count=1).split())
    return words[:_LONGEST_PROVIDER_ID] or None
