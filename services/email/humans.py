"""Who speaks in a mail that is no formal report: a mail system, or a person or what answers for one."""

import re

from services.email.failure import quotes_a_reply, says_why
from services.email.parts import Part
from services.email.phrases import topic_of
from services.email.topics import Topic

_SYSTEM = re.compile(
    r"mailer[-_.]?daemon|mail[-_. ]?daemon|postmaster|mdaemon|mail (delivery )?(sub)?system|mail delivery|mailadmin"
    r"|mail administrator|delivery (subsystem|agent|failure|status|report)|system administrator|microsoft exchange"
    r"|majordomo|bounces?[-+@]|returned mail|(internet )?mail (service|router|gateway|server)|non-?delivery|ndr@"
    r"|no-?reply@(sns|bounce)|complaints@|daemon@|e-?mail gateway|exchange server|mailgate|symantec|smtp agent",
    re.IGNORECASE,
)
_BOUNCED = re.compile(
    r"undeliver|un-?deliverable|not deliver|non[- ]?deliver|(mail|message|delivery)s? (has )?(status|fail|error"
    r"|problem|report)"
    r"|(returned|returning) (mail|message|to sender|e-?mail)|mail (system|delivery) (error|fail)|failure notice"
    r"|delivery (to .{0,200} )?(has )?fail|(could|can|was) ?n.t be (delivered|sent)|could not send|bounce|unzustellbar"
    r"|non remis|[eé]chec|non recapitat|mancat[ao] consegna|devuelt|no se (pudo|puede|ha podido) entreg"
    r"|fall[oa] (en|na|de) "
    r"|onbestelbaar|unknown (user|recipient)|user unknown|mailbox (is )?(full|unavailable)|rejected (mail|message)"
    r"|mail.{0,200} rejected"
    r"|не доставлен|недостав|退信|无法投递|配信|エラー|nicht zugestellt|fehlgeschlagen|zustellung|delivery notification"
    r"|warning: (could not|message)|delayed|message error|niedoręcz|niedost",
    re.IGNORECASE,
)
_DAEMON = re.compile(r"\b(mailer[-_.]?daemon|postmaster)\b", re.IGNORECASE)
_ROBOT = re.compile(r"mailer[-_.]?daemon|mail[-_. ]?daemon", re.IGNORECASE)
_NOBODY = re.compile(r"\s*<\s*(mailer-daemon|postmaster)?(@[^<>@]*)?>\s*", re.IGNORECASE)
"""The null path, also as it is written where mail is kept."""
_FAILED_MAIL = re.compile(
    r"\b(your|this|the|an?|following|original|attached) (e-?mail|mail|message)\b.{0,160}?"
    r"(not (be )?(deliver|sent|reach)|undeliver|fail|reject|refus|block|return|bounc)",
    re.IGNORECASE | re.DOTALL,
)
_ANSWER = re.compile(
    r"^(re|aw|sv|antw|fwd?|wg|tr|rv|r[eé]p)\s*(\[\d+\])?:|out of (the )?office|ooo\b|auto[- ]?(matic"
    r"|mated)?[- ]?(repl|respon|answer)"
    r"|automatische (antwort|beantwortung)|abwesen|vacation|holiday|r[eé]ponse automatique|absence|absent"
    r"|risposta automatica"
    r"|respuesta autom|fuera de (la )?oficina|resposta autom|away from|i am (away|out)|thank you for|ticket|autoreply"
    r"|\b(case|request|inquiry|enquiry)\b.{0,20}(created|opened|received|registered)|we (have )?received your"
    r"|自動返信|自动回复|автоответ|autosvar|automatisch antwoord|read:|gelesen:|lu\s?:|accepted:|declined:",
    re.IGNORECASE,
)
_CHALLENGE = re.compile(
    r"(confirm|verify|authenticate|approve|release) (your|this|that|the) (e-?mail(?! address)|message|sender|mail\b"
    r"|delivery|you)|(confirm|verify) your (e-?mail )?address"
    r"|spam ?arrest|boxbe|challenge[-/ ]response|tmda|click (here|the link|below).{0,60}(deliver|confirm|approve"
    r"|verify)"
    r"|please (confirm|verify) (that|you|by)|sender verification"
    r"|(awaits|waiting for|held for) (moderator|approval|confirmation)"
    r"|(not|is ?n.t) (yet )?(on|in) (my|his|her|their|the list of) (approved|allowed|known|white) ?-?(senders?|list)"
    r"|to (release|deliver) (it|your (e-?mail|message|mail)),? (please )?(reply|click|visit|follow|answer)",
    re.IGNORECASE,
)
_ARRIVED = re.compile(
    r"success\w* (mail )?(delivery|delivered|relay|sent)|(was|(?<!not )(?<!yet )been|were) (successfully )?"
    r"(delivered|relayed)\b"
    r"|delivery (receipt|confirmation|complete)|(relayed|expanded):|delivery to .{0,80} is complete|return receipt"
    r"|message (was )?(read|displayed|opened)|delivered:",
    re.IGNORECASE,
)
_WAITS = re.compile(
    r"warning message only|do(es)? not need to (resend|do anything)|(still|will) (be )?(try|retr|attempt"
    r"|queue)\w*( to| for| being|$|[ .])"
    r"|(will|we.ll) (keep|continue|retry|try)|has been delayed|delivery (is|was|has been)? ?delayed|is delayed"
    r"|not yet been delivered"
    r"|could not (be )?(send|sent|deliver\w*) (message )?for (the )?(past|last)|no action is required|delayed \("
    r"|\(delay\)"
    r"|warning: (could not send|message .{0,80} delayed)|delivery attempts will continue|\(verz(ö|oe)gert\)"
    r"|will be retried",
    re.IGNORECASE,
)
_GIVEN_UP = re.compile(
    r"permanent (fatal )?(error|failure)|giv(en|ing) up|failed permanently|could not be delivered to"
    r"|has been removed from the queue"
    r"|was not delivered|undeliverable|returned to sender|returning (the )?(message|mail)|cannot be delivered"
    r"|will not be (re)?tried",
    re.IGNORECASE,
)
_HOLDERS = re.compile(r"\byour (e-?mail )?(mail ?box|inbox|storage|quota|incoming)\b", re.IGNORECASE)
_NOT_THERE = re.compile(
    r"unable to deliver|not able to deliver|not (be |been )?(received?|delivered)|fail(ed|ure)|intended recipient"
    r"|(is|was|been|being) (returned|refused|rejected)",
    re.IGNORECASE,
)
_LISTED = re.compile(r"^[ \t<]{0,80}[^\s<>@]{1,64}@[^\s<>@]{1,255}", re.MULTILINE)
BEGINNING = 4_000


def is_from_a_system(mail: Part, text: str, *, brings_copy: bool) -> bool:
    """Whether a mail system wrote it, to say what became of another mail.

    ``text`` is what it says for people, ``brings_copy`` tells whether it returns what bounced.
    """
    if mail.header("x-failed-recipients"):
        return True
    subject, beginning = mail.header("subject"), text[:BEGINNING]
    nobody = _is_from_nobody(mail)
    is_daemon = _DAEMON.search(mail.header("from")) is not None
    returns = brings_copy and _says_it_returns(beginning)
    if _ANSWER.search(subject) and not (returns and nobody and is_daemon):
        return False
    if _answers_for_a_person(mail) or (not brings_copy and _goes_to_many(mail)):
        return False
    if is_daemon and brings_copy:
        return True
    if _is_a_system(mail):
        if returns or _BOUNCED.search(subject) is not None:
            return True
        # Behind most of these names sit people too: without a word in the subject it must look like a report.
        is_robot = nobody or _ROBOT.search(mail.header("from")) is not None or not mail.header("from").strip(" <>")
        return _tells_of_failure(beginning) and (is_robot or _LISTED.search(beginning) is not None)
    # Anybody may speak of what could not be delivered, parcels too: a stranger has to show more.
    if _BOUNCED.search(subject) is None or (mail.header("return-path") and not nobody):
        return False
    if _FAILED_MAIL.search(beginning) is not None and says_why(beginning):
        return True
    if nobody and not brings_copy:
        return quotes_a_reply(beginning) and _LISTED.search(beginning) is not None
    return returns or (nobody and not mail.header("auto-submitted").lower().startswith("auto-replied"))


def says_it_arrived(subject: str, text: str) -> bool:
    """Whether it tells of a success, and of nothing else."""
    return _ARRIVED.search(subject) is not None or (
        _ARRIVED.search(text[:BEGINNING]) is not None
        and not _GIVEN_UP.search(text[:BEGINNING])
        and not _BOUNCED.search(subject)
    )


def says_it_waits(subject: str, text: str) -> bool:
    """Whether the mail is still being tried."""
    beginning = text[:BEGINNING]
    if re.search(r"\bdelay|warning: could not send|verz(ö|oe)ger|delayed", subject, re.IGNORECASE):
        return not re.search(r"failed permanently|permanent(ly)? fail", beginning, re.IGNORECASE)
    return _WAITS.search(beginning) is not None and not _GIVEN_UP.search(beginning)


def asks_for_proof(subject: str, text: str) -> bool:
    """Whether it wants the sender to show that there is a person behind the mail."""
    beginning = text[:BEGINNING]
    if quotes_a_reply(beginning) and (_BOUNCED.search(subject) or _GIVEN_UP.search(beginning)):
        return False  # It is the refusal that asks.
    return _CHALLENGE.search(subject) is not None or _CHALLENGE.search(beginning) is not None


def warns_its_holder(text: str) -> bool:
    """Whether it tells the holder of a mailbox about that mailbox; phishing likes to."""
    beginning = text[:BEGINNING]
    return _HOLDERS.search(beginning) is not None and not quotes_a_reply(beginning)


def _says_it_returns(text: str) -> bool:
    """Whether ``text`` says that the mail which comes with it did not get there."""
    return any(pattern.search(text) for pattern in (_GIVEN_UP, _NOT_THERE)) or quotes_a_reply(text)


def _tells_of_failure(text: str) -> bool:
    if _BOUNCED.search(text) is not None or _GIVEN_UP.search(text) is not None:
        return True
    # Attachments, links and viruses are spoken of by anybody.
    return quotes_a_reply(text) or (says_why(text) and topic_of(text) is not Topic.CONTENT)


def _is_a_system(mail: Part) -> bool:
    """Whether its sender calls itself a mail system, or nothing at all."""
    sender = mail.header("from")
    return _SYSTEM.search(sender) is not None or not sender.strip(" <>")


def _goes_to_many(mail: Part) -> bool:
    """Whether it is a newsletter or a list's mail."""
    return not _DAEMON.search(mail.header("from")) and any(
        mail.header(name) for name in ("list-id", "list-unsubscribe", "list-post")
    )


def _is_from_nobody(mail: Part) -> bool:
    """Whether nobody would be told if this mail bounced, which is how mail systems write."""
    return _NOBODY.fullmatch(mail.header("return-path")) is not None


def _answers_for_a_person(mail: Part) -> bool:
    if mail.kind == "multipart/report" and "disposition-notification" in mail.header("content-type"):
        return True
    if mail.header("x-autoreply") or mail.header("x-autorespond") or mail.header("x-vacation"):
        return True
    return mail.header("precedence").strip().lower() == "auto_reply"
