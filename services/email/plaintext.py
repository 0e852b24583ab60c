"""Bounces in no format: qmail, Exim, old Sendmail and Exchange, and what providers write in words of their own."""

import re
from collections.abc import Sequence
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32

from services.email.dsn import read_fields
from services.email.failure import Failure, Fate, find_addresses, judge_failure, quotes_a_reply, says_why
from services.email.humans import asks_for_proof, is_from_a_system, says_it_arrived, says_it_waits, warns_its_holder
from services.email.parts import Part

LONGEST_TEXT = 60_000
MOST_LINES = 2_000
LINES_ABOUT_ONE = 12
LONGEST_ABOUT_ONE = 4_000
"""Of what is said of one recipient, its beginning is judged: each of many may have all of the text to itself."""
MOST_ADDRESSES = 50
MOST_NAMED = 200
"""Of the addresses in a text, so many are looked at."""
_COPY = re.compile(
    r"^(?:[^\w\n]|_){0,200}(below this line is a copy|this is a copy of (the|your) message"
    r"|(the )?original (message|e-?mail)"
    r"|(unsent|returned|undelivered) (message|mail)( (is )?below| follows| headers)|copy of (your|the) (message"
    r"|mail)|message (header|text) follows"
    r"|(the )?(header|body|text|beginning) of (the )?(original|your|message)|included is a copy"
    r"|your (original )?message (follows|reads|is)"
    r"|(received|full)? ?message headers|transcript of message|forwarded message|start of (returned|original)"
    r"|headers of the original|the header and top \d+ lines)",
    re.IGNORECASE | re.MULTILINE,
)
_HEADERS = re.compile(
    r"^(?:Return-Path|Received|Delivered-To|X-Originating-IP|DKIM-Signature|Message-ID): ", re.MULTILINE | re.IGNORECASE
)
_RETURNED = ("message/rfc822", "message/global", "text/rfc822-headers", "message/rfc822-headers")
_QUOTED = re.compile(r"^>(?!>).*\n?", re.MULTILINE)
_FIELDS = re.compile(r"^(?:Final|Original)-Recipient:", re.MULTILINE | re.IGNORECASE)
_NOBODY = re.compile(
    r"^(postmaster|mailer-daemon|mail-daemon|abuse|helpdesk|hostmaster|webmaster|support|info-?desk|noc|root)@",
    re.IGNORECASE,
)
_PARAGRAPH = re.compile(r"^<([^\s<>]{1,200}@[^\s<>]{1,200})>:[ \t]*$", re.MULTILINE)
"""How qmail and its kin begin what they say of one recipient."""
_REWRITTEN = (
    r">?\s{0,99}(?:\(reason: [^\n]{0,999}\n\s{0,99})?"
    r"\((?:ultimately )?(?:generated|expanded) from:? <?([^\s<>()]{1,64}@[^\s<>()]{1,255})"
)
"""How Exim, Postfix and Sendmail say, right behind an address, which one it stands for."""
LONGEST_BEFORE_ONE = 120
_BEFORE_ONE = re.compile(r"[ \t<'\"*>-]{0,80}(?:to:|recipient:|rcpt to:)?[ \t<'\"]{0,20}", re.IGNORECASE)
"""What may stand before an address that a line is about."""
_SEPARATOR = re.compile(r"[ \t]{0,80}([-_=*#~])\1{9,}")
_BLANK_LINES = re.compile(r"\n(?:[ \t]{0,80}\n)+")
_TO = re.compile(r"^To: *(.*(?:\n[ \t].*)*)", re.MULTILINE | re.IGNORECASE)
_FRAME = re.compile(
    r"this is a permanent error[^.]{0,200}\.|permanent (fatal )?errors?\b|message could not be delivered"
    r"|delivery (has )?failed( permanently)?"
    r"|could not be delivered to[^.:]{0,200}[.:]|transcript of session|the following address(es)?( \w+){0,5}"
    r"|lasting error|giving up on \S{1,255}|i'?m not going to try again[^.]{0,200}\.",
    re.IGNORECASE,
)


def read_plaintext(mail: Part, raw: bytes) -> list[Failure]:
    """What a mail system says in words of its own; [] for everything else, people's answers above all."""
    subject = mail.header("subject")
    whole = _text(mail)
    told = _without_copy(whole)
    if not speaks_for_a_system(mail) or warns_its_holder(told):
        return []
    if asks_for_proof(subject, told) or says_it_arrived(subject, told):
        return []
    addresses = _whom(mail, raw, whole, told)
    if says_it_waits(subject, told):
        return [judge_failure(address, Fate.WAITS, None, subject) for address in addresses]
    return [
        judge_failure(written_to(address, told), Fate.FAILED, None, _about(address, addresses, told))
        for address in addresses
    ]


def read_unmarked_dsn(mail: Part) -> list[Failure]:
    """The fields of a status notification that stand in the text, where nothing says that they are one."""
    told = _without_copy(_text(mail))
    begins = _FIELDS.search(told)
    if begins is None or "\naction:" not in told.lower() or not speaks_for_a_system(mail):
        return []
    return read_fields(told[begins.start() :])


def speaks_for_a_system(mail: Part) -> bool:
    """Whether a mail system wrote ``mail``, to say what became of another one."""
    whole = _text(mail)
    told = _without_copy(whole)
    returned = len(told) < len(whole) or any(part.kind in _RETURNED for part in mail.own_parts())
    return is_from_a_system(mail, told, brings_copy=returned)


def told_by(mail: Part) -> str:
    """What the report says for people, without its fields and without what it returns."""
    return _FIELDS.split(_without_copy(_text(mail)), maxsplit=1)[0]


def words_about(address: str, addresses: Sequence[str], told: str) -> str:
    """What ``told`` says of ``address``, one of ``addresses``; '' when that does not stand there."""
    return _about(address, addresses, told) if address and address.lower() in told.lower() else ""


def written_to(address: str, told: str) -> str:
    """The address that was written to, where ``told`` says that ``address`` is what became of it."""
    found = re.search(rf"{re.escape(address)}{_REWRITTEN}", told, re.IGNORECASE) if address else None
    return found[1] if found else address


def addressed_in(mail: Part) -> list[str]:
    """Whom the returned mail was addressed to."""
    return list(_addressed(mail, _text(mail)).values())


def _text(mail: Part) -> str:
    """The words of the report itself, without what it quotes: its plain text, or of HTML what there is."""
    texts = [part for part in mail.own_parts() if part.kind in ("text/plain", "text/html")]
    plain = [part for part in texts if part.kind != "text/html"] or texts
    return _QUOTED.sub("", "\n".join(part.text()[:LONGEST_TEXT] for part in plain)[:LONGEST_TEXT])


def _without_copy(text: str) -> str:
    """``text`` up to where what bounced is repeated."""
    ends = [found.start() for pattern in (_COPY, _HEADERS) if (found := pattern.search(text))]
    ends = [end for end in ends if text[:end].strip()]
    return text[: min(ends)] if ends else text


def _whom(mail: Part, raw: bytes, whole: str, told: str) -> list[str]:
    """Who the report is about, by the best sign there is."""
    failed = find_addresses(mail.header("x-failed-recipients"))
    if failed:
        return failed[:MOST_ADDRESSES]
    ours = {
        address.lower()
        for name in ("to", "from", "reply-to", "delivered-to", "cc")
        for address in find_addresses(mail.header(name))
    }
    named = [one for one in find_addresses(told) if one.lower() not in ours and not _NOBODY.match(one)]
    addressed = _addressed(mail, whole)
    named = named[:MOST_NAMED]
    if len(paragraphs := list(dict.fromkeys(_PARAGRAPH.findall(told)))) > 1:
        return paragraphs[:MOST_ADDRESSES]
    if both := [one for one in named if one.lower() in addressed]:
        # Those that the returned mail does not name, and that are listed in the same way.
        places = {_place(one, told) for one in both} - {None}
        return [one for one in named if one in both or _place(one, told) in places][:MOST_ADDRESSES]
    if standing := [one for one in named if _place(one, told) is not None]:
        return standing[:MOST_ADDRESSES]
    return _found_elsewhere(raw, ours) or (named if len(named) == 1 else list(addressed.values())[:1])


def _addressed(mail: Part, whole: str) -> dict[str, str]:
    """Whom the returned mail was addressed to: in lower case, and as it stands."""
    headers = [part.header("to") for part in list(mail.walk())[1:]]
    copy = whole[len(_without_copy(whole)) :]
    headers += _TO.findall(copy)[:3]
    return {address.lower(): address for header in headers for address in find_addresses(header)}


def _place(address: str, told: str) -> tuple[str, str] | None:
    """What stands around ``address`` where a line begins with it, as a list of those who failed does; else None."""
    for found in re.finditer(rf"{re.escape(address)}(?![\w-])([>'\"]?[ \t]{{0,20}}[:(.]?)", told, re.IGNORECASE):
        # Its line is read backwards: read from the front, every line would be tried for every address.
        before = told[max(found.start() - LONGEST_BEFORE_ONE, 0) : found.start()].rpartition("\n")
        if (before[1] or found.start() <= LONGEST_BEFORE_ONE) and _BEFORE_ONE.fullmatch(before[2]):
            return before[2].lower(), found[1]
    return None


def _found_elsewhere(raw: bytes, ours: set[str]) -> list[str]:
    """What flufl.bounce finds: many formats' places of addresses. Its word on them is not asked."""
    from flufl.bounce import all_failures  # noqa: PLC0415 - only for what nobody else reads

    try:
        # It holds each line against fifty patterns, twice.
        beginning = b"".join(raw[:LONGEST_TEXT].splitlines(keepends=True)[:MOST_LINES])
        message: Message = BytesParser(policy=compat32).parsebytes(beginning)
        waiting, failed = all_failures(message)
    except Exception:  # noqa: BLE001 - it reads anybody's bytes, and knows no limits
        return []
    found = [one.decode("utf-8", "replace") for one in (*failed, *waiting)]
    return sorted(one for one in found if one.lower() not in ours and find_addresses(one) == [one])


def _about(address: str, addresses: Sequence[str], told: str) -> str:
    """The words that are said of ``address``: from each place where it stands to where another one does."""
    lines = told.splitlines()
    others = [one.lower() for one in addresses if one.lower() != address.lower()]
    about: dict[str, None] = {}
    for at, line in enumerate(lines):
        if address.lower() not in line.lower():
            continue
        for following in lines[at : at + LINES_ABOUT_ONE]:
            if any(other in following.lower() for other in others) or _SEPARATOR.match(following):
                break
            about[following] = None
    words = _without_frame(" ".join(about))
    if not others and not quotes_a_reply(words) and (reply := _paragraph_with_a_reply(told)):
        return reply
    return words if says_why(words) else _without_frame(told)


def _without_frame(text: str) -> str:
    """``text`` without the sentences that every report has, whatever the reason."""
    return _FRAME.sub(" ", text[:LONGEST_ABOUT_ONE])


def _paragraph_with_a_reply(told: str) -> str:
    """The first paragraph that quotes what a server said; '' when none does."""
    return next((one for one in _BLANK_LINES.split(told) if quotes_a_reply(one)), "")
