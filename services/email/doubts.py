"""What may be unknown, invalid or closed without being the recipient: words that stand beside those of a dead address.

Asked before an address is declared dead, and only then: alone they say too little. A server writes "user unknown" of
the login, "account disabled" of the customer it bills, "address does not exist" of the sender it called back.
"""

import re

from services.email.topics import Topic
from services.email.words import compile_phrases, plain_words

# Regular expressions as in the table of phrases.
_PHRASES: dict[Topic, tuple[str, ...]] = {
    Topic.RESTRICTED: (
        r"\bcountr(y|ies)\b|\boutside\b|\bmail from\b|\breception\b|\bto accept\b|\bapproved\b|\bcall(back|out)\b",
        r"\bbackscatter|\bbatv\b|\bdsns?\b",
        r"\bmembers?\b|\bcorrespondents?\b|\ballow ?list|\bencrypt\w+|\b(public|pgp) key\b",
    ),
    Topic.SENDER: (
        r"(?<!\bto )(?<!\bto the )(?<!contact the )\bsenders?\b(?! (should|must|has to|can))",
        r"\b(message|mail|e-?mail) sending\b",
        r"\b(sending|mail-?from|from|reply-?to|bounce|return|tracking) (\w+ )?"
        r"(account|user|mail ?box|address|domain)\b",
        r"\bdomain\b.{0,60}\b(verified|account)\b|\blink domain\b|\bverification of\b|\bfor sending\b|\blicensed\b",
        r"\boriginat|\bof yours\b|\bcalled: |\bpostmaster (check|verification|address|mail ?box)\b",
        r"(?<!\bal )(?<!\bao )\b(mittente|remitente|remetente)|(?<!à l')(?<!a l')\bexp[eé]diteur",
        r"(?<!an den )\babsender|\bnadawc[ay]|(?<!aan )(?<!naar )\bafzender",
        r"\bgönderen|\bodes[ií]latel|\bfeladó|\bexpeditor",
        r"(?<!kontakta )\b(avs(e|ä)nd|afsend)(er|ar)|\blähettäj|\bngười gửi",
        r"отправител|відправник|[发寄發][件信](人|者)|αποστολ|שולח|مرسل|ผู้ส่ง|送信(者|元)|差出人|발신|보낸|보내는",
    ),
    Topic.LOGIN: (
        r"\bauth\b|\bsasl\b|\blogged in\b|\bapi\b|\bto this relay\b|\bto relay\b|\brelaying\b|\bsmtp (user|account)\b",
        r"\byou are not\b",
    ),
    Topic.QUOTA: (
        r"\byour (\w+ ){0,2}(account|user|mail ?box|contract|tenant|subscription)\b",
        r"\bvotre (compte|domaine|serveur|adresse)|\bihre?[mns]? (konto|benutzer|account|domain|server)"
        r"|\b(su|tu|sua|seu|tua|tuo|vostr[oa]) (cuenta|conta|account|dom[ií]nio|servidor"
        r"|direcci[oó]n|endere[cç]o|indirizzo)|\buw (account|domein)"
        r"|\bваш\w* (уч[её]тн|аккаунт|домен|сервер|ящик)",  # noqa: RUF001 - it is Russian
        r"[您你]的 ?(帐|账|域名|服务器|ip|邮箱|地址)",
        r"\bsub-?account|\bcustomer (is |was |has been )?(not found|unknown|disabled|inactive|closed)\b",
        r"\b(client|tenant|trial|billing)\b.{0,10}\b(account|user|customer|expired)\b",
        r"\b(outgoing|outbound|abus\w+|harvest\w*|dictionary attack|subscription|contract|invoice|payment|unpaid)\b",
    ),
    Topic.ADDRESS: (
        r"\b(address|host|domain)\W+~ip(?!.{0,8} said\b)|\bip (address|unknown)\b",
        r"\b(adresse|direcci[oó]n|endere[cç]o|indirizzo|adres) ip\b|\bip[ -]?(adresse?|adres|адрес)",
        r"\bip ?(地址|アドレス)",
    ),
    Topic.LATER: (
        r"\bplease retry\b|\bright now\b|\blookup fail|\bin (the )?cache\b|\bbackend\b",
        r"\bcurrently (closed|disabled|inactive)\b|\bmigrat\w+",
        r"\bavailable now\b|\b(directory|server) (is )?not available",
        r"\b(tomorrow|at present|for now|until|quota|space|storage|full|pleine?|penuh|voll|pełn[ay])\b",
        r"\brewrite\b|\bmap \w+ not found",
        r"\b(table|database|map) (is |was |has )?(not|does not|missing|unavailable)\b",
        r"\b(internal|local|directory|database|ldap|lookup|temporary|server)( \w+)? (error|failure|fail\w*)\b",
    ),
    Topic.HELD: (
        # Whose account? A relay says it of its customer, who are we.
        r"^(?!.*(~|recipient|mail ?box|e-?mail|user|address|reach|inactivity)).*\baccount\b.{0,20}"
        r"\b(disabled|not activated|not active|deactivated|expired|inactive|closed|terminated|cancell?ed)\b",
    ),
    Topic.FORM: (
        r"\battachment\b(?!s).{0,30}\b(not|invalid|unknown)\b|\b(attachment|file) (name|file|not)\b",
        r"\b(in|recipient|address|from|to|cc) (\w+ )?headers?\b|\b(message|mail) (body|text)\b|\blinks? to\b",
        r"\bin (the |your )?(message|body|text)\b|\b(message|mail) contains (an? )?(invalid|unknown|bad)\b",
        r"\b(in|of) (the|this|your) e-?mail\b(?! ?(system|server|domain|director))|\baddress type\b",
        r"\bcampaign\b|\binvitation\b",
        r"\bchar(acter )?set\b|\bcharacters?\b|\bsmtputf8\b",
    ),
}  # fmt: skip
_COMPILED = compile_phrases(_PHRASES)

_BESIDE_ABSENT = re.compile(
    r"\b(access|denin?ed|refus\w*|error|fail\w*|command|syntax|policy|loop|system|misconfigured|connect\w*|domain"
    r"|attempts?|content|files?|messages?|try)\b"
)
"""What RFC 5321 says of every 550, "mailbox unavailable", counts for nothing beside another reason."""
_BESIDE_A_STATUS = re.compile(
    r"\b(files?|loop\w*|messages?|content|body|signature|bulk|mass|mailer|command|data|syntax error(?! in mail)"
    r"|protocol|(mis)?config\w*(?! to receive)|resolving|nameserver|ip|connections?|please|permi\w+|den(y|ied)|access"
    r"|filter\w*|protected|system|errors?|failures?|transaction|queue|abort\w*|refuse[sd]?|delivery|isp|polic(y|ies)"
    r"|sending|group|problem|your?|memory|attacks?|mta-sts|closing|shutting|(dis)?allowed|blocked|busy|want"
    r"|accept user|key|attempts?|ambiguous|purported|relay|smtp|this (service|server|host)|network|port|rule|template"
    r"|token|client|mx for)\b"
)
"""A status of a dead address is believed beside words that nobody knows, yet not beside those of another matter."""


def doubt_of(topic: Topic | None, text: str) -> Topic | None:
    """What else than the recipient ``text`` may speak of, though ``topic`` or its status is that of a dead address."""
    words = plain_words(text)
    if topic is Topic.ABSENT and _BESIDE_ABSENT.search(words):
        return Topic.HELD
    if topic is None and _BESIDE_A_STATUS.search(words):
        return Topic.HELD
    return next((doubt for doubt, pattern in _COMPILED.items() if pattern.search(words)), None)
