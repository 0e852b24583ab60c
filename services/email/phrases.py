"""What the words of an SMTP refusal speak of: phrases that many servers share, never whole sentences of one.

The order of the table is the order of belief: what speaks of us or of a full mailbox is asked before what
speaks of a dead address, because servers wrap the former in the words of the latter ("Recipient address
rejected: your host is listed at …").
"""

import re
from enum import Enum, auto


class Topic(Enum):
    """What a refusal is about."""

    RECEIVER_BUSY = auto()
    """The recipient gets too much mail at the moment."""
    QUOTA = auto()
    """We send too much, or our account may not send."""
    FULL = auto()
    """The recipient's mailbox has no room."""
    TOO_BIG = auto()
    """The message is larger than they take."""
    RESTRICTED = auto()
    """The recipient lives and does not want mail from just anybody."""
    SENDER = auto()
    """Our From address or its domain."""
    LOGIN = auto()
    """We are not logged in, not encrypted, or may not relay."""
    ADDRESS = auto()
    """Our network address, its name or its reputation."""
    LATER = auto()
    """Not now."""
    SPAM = auto()
    """The content looks like spam or worse."""
    GONE = auto()
    """The recipient's address does not exist any more, or never did."""
    CONTENT = auto()
    """The content breaks a rule."""


_PERSON = (
    r"(user|recip(ient)?|mail ?box|address|e-?mail(?! (header|content|message|format|body|server|from|client))"
    r"|account|alias|inbox|destination|customer|person)"
)

# Each is a regular expression over the words in lower case, with "n't" written out and single spaces.
_PHRASES: dict[Topic, tuple[str, ...]] = {
    Topic.RECEIVER_BUSY: (r"\breceiv\w+ (e?-?mail |messages )?(too|at a rate)",),
    Topic.QUOTA: (
        r"\b(send(ing)?|daily|hourly|monthly|outgoing|outbound|relay\w*|submission) (\w+ ){0,2}(quota|limit|rate)",
        r"\b(rate|frequency|throughput)[- ]?limit",
        r"\bmessage (rate|count)|\bthrottl|\bunusual (sending|rate|amount)",
        r"\bfrequen\w+ limit|\blimit\w* .{0,20}\bfrequen",
        r"\btoo (many|much) (messages|e?-?mails?\b|connections|requests|login)",
        r"\btoo many \w+ (recipients|users|addresses)",
        r"\bsending (is |was |has been )?(suspended|paused|disabled|blocked|stopped)",
        r"\b(sending|account) .{0,20}(suspended|paused|disabled|blocked) for\b|\bsuspended for (this|your) account",
        r"\byour account|\b(insufficient|maximum|no) credits",
    ),
    Topic.FULL: (
        r"\bover ?quota|\bquota ?(is |was |has been )?(exceeded|full|reached)",
        r"\bexceed\w* .{0,30}(quota|storage|mailbox)",
        r"\b(insufficient|not enough|no|out of|lack of) ((system|disk|mail|mailbox|free) )*(storage|space|quota)",
        r"\b(mail ?box|inbox|mail ?folder|storage|user|account|recipient)\b.{0,40}\b(full|exceed\w*)\b",
        r"\bfull (mail|in)box|\b(mail ?box|storage) .{0,20}(limit|quota)",
        r"postfach .{0,20}voll|bo[iî]te .{0,20}pleine|casella .{0,20}piena|buz[oó]n .{0,20}lleno|caixa .{0,20}cheia",
    ),
    Topic.TOO_BIG: (
        r"\btoo (large|big)\b|\b(message|mail|content|data) (is )?too long",
        r"\b(size|length) (limit|exceed)|\bexceed\w* .{0,30}\b(size|length)\b",
        r"\bmax\w* (allowed )?(message |mail )?(size|length)\b",
    ),
    Topic.RESTRICTED: (
        r"\bresolver\.rst\b",
        r"\bto (this|the|that) (recipient|user|group|list|distribution)\b",
        r"\b(allowed|approved|accepted|safe)[- ]senders?\b|\bblocked by (the )?(recipient|user)",
        r"\b(recipient|user|group|list)\b.{0,30}(only accepts|does not accept|refuses (mail|messages))",
    ),
    Topic.SENDER: (
        r"\b(spf|dkim|dmarc)\b",
        r"\bsender('s)? (e-?mail |mail )?(address|domain|policy|verif|id\b|is |was |not )",
        r"\bsender (rejected|refused|denied|blocked|unknown|invalid)",
        r"\b(invalid|bad|unknown|unverified|unauthori[sz]ed|forged) sender",
        r"\bdomain of (the )?sender|\b(sending|your|unregistered) domain|\breturn[- ]path",
        r"\benvelope[- ](sender|from)\b|\bsend(ing)? (as|on behalf)\b|\bas this sender",
        r"\bfrom[: ]+(header|address|domain)\b|\b(header|5322)\.?[- ]?from\b",
        r"\b(address|domain|identit\w+|e-?mail)( \w+)?( is| are| has| have)? not( been)? "
        r"(verified|authori[sz]ed|confirmed)",
        r"\bunverified (domain|identit)|\bnot (allowed|authori[sz]ed|permitted) to send",
    ),
    Topic.LOGIN: (
        r"\b(un)?authenticat|\bauth (is )?(required|failed)|\bnot logged|\blog ?in\b|\bcredentials\b|\bpassword",
        r"\brelay\w*\b.{0,20}(denied|not|prohibit|forbid|disabled|refused|rejected)",
        r"\b(unable|not|cannot|no)( \w+){0,3} relay|\brcpthosts|\bforwarding .{0,30}disabled",
        r"\bstart ?tls|\b(tls|encryption) (is )?(required|needed)|\bnot authori[sz]ed to\b",
    ),
    Topic.ADDRESS: (
        r"\b(black|block|deny|ip)[- ]?list|\blisted (at|in|by|on|with)\b|\bblocked using|\bdelist|\breputation",
        r"\b\w*rbl\b|dnsbl|\bspamhaus|\bspamcop|\bbarracuda|\bsorbs|\buceprotect",
        r"\b(your|sending|connecting|client|source|originating)( \w+)? (ip|ips|host|server|mta|network|hostname)\b",
        r"\b(from|this|your|the) ip\b|\bfrom (this|your) (host|server|network)|\bdynamic (ip|address)",
        r"\bip\b.{0,40}(block|ban|reject|refus|denied|limit|not (allowed|accepted|authori))",
        r"\b(block|ban|reject|refus|denied)\w*.{0,30}\bips?\b",
        r"\breverse (dns|lookup|host|entry|mapping|resol)|\br-?dns\b|\bptr\b|\bfcrdns|\b(helo|ehlo)\b",
        r"\bnot accepting (connections|mail from|messages from)|\brefus\w+ to talk",
        r"\bconnections? (is |was )?(refused|rejected|denied|blocked)",
        r"\b(refus|reject|block|den[yi])\w* (mail|messages?|connections?) from",
    ),
    Topic.LATER: (
        r"\b(try|retry)( again| it| your message| sending)* (later|in|after)\b|\bagain later|\btemporar",
        r"\bgr[ea]y ?list|\bdefer|\b(at|for) (this|the) (time|moment)\b|\bcurrently (unavailable|not)",
        r"\b(system|server|service) (is )?(too )?(busy|overload|unavailable|not available)",
        r"\bunder (way|maintenance)|\bin progress\b|\btimed? ?out\b|\bresources?\b.{0,20}unavailable",
        r"\btemporaire|\bvor(ü|ue)bergehend|\bsp(ä|ae)ter|\btemporal|\btempor[aâ]ne",
    ),
    Topic.SPAM: (
        r"\bspam|\bvirus|\bmalware|\bphish|\bunsolicited|\bjunk|\bsuspici|\burls?\b|\b(sur|uri)bl\b",
    ),
    Topic.GONE: (
        r"\b(no|unknown|invalid|bad|non-?exist\w+|undeliverable|inactive|disabled)"
        rf" ((such|local|valid|e-?mail|virtual|mail|destination) )*{_PERSON}\b",
        rf"\b{_PERSON}\b.{{0,40}}?\b(unknown|no longer|invalid|disabled|inactive|suspended|deactivated|closed"
        r"|discontinued|deleted|terminated|expired|unavailable|dormant|moved|abandoned|retired|locked|inactivity)\b",
        rf"\b{_PERSON}\b.{{0,40}}?\bnot (be )?(found|exist|known|valid|recogni[sz]ed|listed|available|active|here|local"
        r"|located|hosted|deliverable)\b",
        r"\bno (such|one|mailbox)\b.{0,20}here|\bhas left\b|\bnew owner\b",
        r"\bnot (have |hold )?(our|a|an) ([\w.]+ )?(customer|user|mailbox|account|recipient)\b",
        r"\bno longer (here|employed|with|works|valid|available|in use|exist|active)",
        r"\b(domain|host)( name)?\b.{0,30}not (be )?(found|exist|known|valid|hosted)|\bno such domain",
        r"\bnxdomain\b|\bnull mx\b|\b(no|resolving the) mx\b|\bunroute?able|\bbad destination\b",
        r"destinataire .{0,20}(inconnu|invalide|inexistant)|utilisateur .{0,20}(inconnu|inexistant)|n'existe pas",
        r"(empf(ä|ae)nger|benutzer|nutzer|adresse|postfach) .{0,30}(unbekannt|ung(ü|ue)ltig|deaktiviert)",
        r"existiert nicht|nicht (gefunden|vorhanden|bekannt)|no existe|n[aã]o existe|non esiste|in(es|ex)istente",
        r"(usu[aá]rio|destinat[aá]rio|utente|cuenta|conta|direcci[oó]n|endere[cç]o|indirizzo) .{0,20}"
        r"(descon|scono|inv[aá]lid)",
    ),
    Topic.CONTENT: (
        r"\bblocked\b|\bpolicy|\bpolicies|\bprohibit|\bcontent\b|\battachment|\bmalformed|\bmime\b|\bheaders?\b",
        r"\bbare (lf|cr)\b|\bloop|\bhop count|\btoo many hops",
        r"\b(message|mail) (was |has been |is )?(rejected|refused|not accepted)",
    ),
}  # fmt: skip
_COMPILED = {topic: re.compile("|".join(phrases)) for topic, phrases in _PHRASES.items()}

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_URL = re.compile(r"\bhttps?:[^\s<>()\[\]]*", re.IGNORECASE)
_MAILBOX = re.compile(r"[^\s<>:;,()\[\]]+@[^\s<>:;,()\[\]]+")
_LINK_ABOUT_US = re.compile(r"(block|black)-?list|\brbl|dnsbl|spamhaus|/ip/|[?&]ip=|\bdelist|removal", re.IGNORECASE)
LONGEST_READ = 1000


def topic_of(text: str) -> Topic | None:
    """What ``text``, the words of a refusal, speaks of; None when they say nothing that is known."""
    text = text[:LONGEST_READ]
    # Addresses and links are taken out: their letters are nobody's words.
    words = _MAILBOX.sub("~", _URL.sub(" ", text))
    words = " ".join(_CAMEL.sub(" ", words).lower().replace("’", "'").replace("n't", " not").split())
    for topic, pattern in _COMPILED.items():
        if pattern.search(words):
            return topic
        if topic is Topic.ADDRESS and any(_LINK_ABOUT_US.search(link) for link in _URL.findall(text)):
            return topic
    return None
