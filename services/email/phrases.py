"""What the words of an SMTP refusal speak of: phrases that many servers share, never whole sentences of one.

The order of the topics is the order of belief: what speaks of us or of a full mailbox is asked before what speaks of a
dead address, because servers wrap the former in the words of the latter ("Recipient address rejected: your host is
listed at …"). Within a topic the order means nothing; English comes first, then other languages.

A reply that is read wrongly becomes a row of ``tests/unit/replies.tsv``, then a phrase of the topic that it is about.
Where a topic above it takes the reply, that one's phrase is too wide; where a dead address is declared wrongly, the
words that say otherwise belong among the doubts. No phrase passes over words without a bound (``.{0,30}``, not ``.*``).
"""

import re

from services.email.topics import Topic
from services.email.words import compile_phrases, links_in, plain_words

_PERSON = (
    r"(user(id)?|recip(ient)?|addressee|mail ?box|address"
    r"|e-?mail(?! (header|content|message|format|body|server|from|client))"
    r"|account|alias|inbox|destination|customer|person|subscriber)"
)
_OF_IT = r"(?:[^:;.]|\.(?!\s)){0,40}?[:;.\s]*"
"""Up to the word that is said of a person: what stands behind a colon or in the next sentence is said of another."""
_SENT = r"(e?-?mails?|messages?|recipients|connections?|sessions?|requests|login|errors)"

# Each is a regular expression over the words in lower case, with "n't" written out and single spaces. An address is
# "~", a network address "~ip"; links are gone.
_PHRASES: dict[Topic, tuple[str, ...]] = {
    Topic.GAVE_UP: (
        r"\bmessage (has )?expired|\bretry time(out)?\b|\bqueue (time|expired|too long)|\bin the queue too long",
        r"\bfailing for a long time|\bdelivery (time|timeout) ?(expired|out)?\b|\bnot going to try again",
        r"\bconnect\w* (to \S+ )?(timed? ?out|reset)|\bconnection (was )?(closed|lost)|\bclosed (the )?connection",
        r"\bno route to host|\bqueue period",
        r"\b(host|server|computer|system)s?\b.{0,40}? (unreachable|not (responding|reachable|answering))\b",
        r"\b(could|can) ?not (establish|connect)|\bnot able to establish",
        r"(?<!reverse )\bdns (query|lookup) (failed|failure|error)|\bunverified address:",
    ),
    Topic.RECEIVER_BUSY: (
        r"\breceiv\w+ (e?-?mail |messages )?(too|at a rate)|\breceive limit|\brecipient ?rate ?limit",
        r"\b(recipient|mailbox|user)\b.{0,20}\b(receiv|exceed)\w* .{0,60}\b(receive|too (much|many) e?-?mail)",
        r"\bfrequency of receiving|\bexceeding receiving limits",
    ),
    Topic.FORM: (
        r"\brfc ?-?(822|2822|5322|2047|2045|2046)\b|\bnot (\w+ )?rfc[- ]compliant|\bmalformed|\bduplicate headers?",
        r"\bmissing (a )?(valid )?[\w-]*:? ?(address in (the )?from|message-id|date|from|to|subject)\b",
        r"\bmultiple addresses in from|\bno from: header|\bbare (lf|cr|line ?feed)|\bline (is )?too long",
        r"\bline length|\bhop count|\btoo many (hops|received)|\b\d+ hops\b|\bmail loop|\bmessage is looping",
        r"\b(address|recipient) header|\bheader syntax|\bin (the )?(to|cc|bcc|message|mail):? header",
        r"\bcommand sequence|\buser agent",
        r"\b(url|link|domain)s? (found )?(in|within) (this|the|your) (e-?mail|message|body)\b",
        r"\brouting loop|\bdt:sp[a-z]\b|\bunsupported (charset|content)|\b8-?bit (data|header|mime)|\bencoded-word",
    ),
    Topic.TOO_BIG: (
        r"(?<!mailbox )\b(size|length) (limit|exceed)",
        r"(?<!mailbox )(?<!quota )\bexceed\w* .{0,30}\b(message )?(size|length)\b",
        r"\b(message|mail|content|data|attachment|header)s?( file)? (is )?too (long|large|big)\b|\bfile too large",
        r"\b(message|mail|e-?mail) (size|length)\b|\bmax\w* (allowed )?(message |mail )(size|length)\b",
        r"\btaille .{0,20}message|\bnachricht .{0,20}(zu gro|gr(ö|oe)ße|gr(ö|oe)sse)",
    ),
    Topic.QUOTA: (
        r"\b(send(ing)?|daily|hourly|monthly|outgoing|outbound|relay\w*|submission) (\w+ ){0,2}(quota|limit|rate)",
        r"\b(rate|frequency|throughput)[- ]?limit|\brate (is )?exceed|\bexceed\w* .{0,20}\brate\b",
        r"\bmessage (rate|count)|\bthrottl|\bunusual (sending|rate|amount)|\bmax (emails|defers) ",
        r"\bfrequen\w+ limit|\blimit\w* .{0,20}\bfrequen|\bper (hour|day|minute)\b.{0,30}\b(allowed|limit|exceed)",
        rf"\btoo (many|much) (\w+ )?{_SENT}\b(?! (in|on) (the|this|your|h))",
        r"\b(too many|more than \d+) \w+ (recipients|users|addresses)|\byou( have)? exceed",
        r"\bsending (account )?(is |was |has been )?(suspended|paused|disabled|blocked|stopped|denied)",
        r"\b(sending|account) .{0,20}(suspended|paused|disabled|blocked) for\b|\bsuspended for (this|your) account",
        r"\baccount outbounds",
        r"\boutgoing (mail|e-?mail|messages?)\b.{0,60}\b(suspend|disab|block|not allow|exceed|limit)|\byour account",
        r"\bexcessive\b.{0,20}\b(unknown|invalid)|\bdictionary attack|\bharvest|\boutbound spam",
        r"\b(insufficient|maximum|no) credits|\bsandbox\b|\btest purposes|\btenant has exceeded",
        r"\bexceeded (permitted|your|the (allowed|maximum|max)) .{0,30}(limits?|number|messages|emails"
        r"|recipients|connections)",
    ),
    Topic.FULL: (
        r"\bover[- ]?(disk |storage |the |their |h(is|er) |allowed |maximum ){0,3}quota|\bquota is over",
        r"\bquotas? (is |was |has been )?(exceed\w*|full|reached|violation)|\boverquota",
        r"\bexceed\w* .{0,30}(quota|storage|mailbox)|\boverdrawn|\bspace (has|is) (been )?used",
        r"\b(insufficient|not enough|no|out of|lack of|not sufficient) ((system|disk|mail|mailbox|free"
        r"|storage) )*(storage|space|quota|room|diskspace)",
        r"\b(mail ?box|inbox|mail ?folder|maildir|storage|user|account|recipient)\b.{0,40}\b(full|exceed\w*)\b",
        r"\bfull (mail|in)box|\b(mail ?box|storage|account) .{0,20}(limit|quota)|\btoo many messages (in|on) ",
        r"\bover (its|the|their|his|her) (\w+ ){0,2}(space|size|limit|storage)\b",
        r"\bmailbox (is )?(too large|over)|\b(disk|system) (is )?full|\bno space left|\bexceeds allowed message count",
        r"postfach .{0,30}(voll|f(ü|ue)llt)|speicher\w* .{0,40}((ü|ue)berschritten|ersch(ö|oe)pft)",
        r"bo[iî]te .{0,20}pleine|casella .{0,20}piena|buz[oó]n .{0,20}llen[oa]|caixa .{0,20}cheia|quota d[eé]pass",
        r"przepe[lł]nion|가득|용량|skrzynka .{0,20}pe[lł]na|mailbox .{0,10}\bvol\b|perepolnen",
        r"переполнен|превышен\w* .{0,20}квот|容量(已)?满|已满|空间不足|容量不足|いっぱい",
    ),
    Topic.RESTRICTED: (
        r"\bmay not exist|\bresolver\.rst\b",
        r"\bsender not authenticated for|\bauthenticated for (group|mailbox|public folder)",
        r"\bto (this|the|that) (recipient|user|group|list|distribution|mailing list)\b",
        r"\b(allowed|approved|accepted|safe)[- ]senders?\b|\bblocked by (the )?(recipient|user)",
        r"\brejected by recipients?\b",
        r"\b(recipient|user|group|list)\b.{0,30}(only accept\w*|does not accept|refuses (mail|messages|to accept))",
        r"\bonly accepting mail from|\bmembers?[- ]only|\bnot (a )?(subscribed|member)\b(?! of (the )?domain)",
        r"\bclosed mailing list",
        r"\bnot allowed to post|\buser (entry|domain entry)\b|\brecipient preferences|\buser rules|\bprivate list",
        r"\bbecause the sender is not on|\bmailbox access for",
    ),
    Topic.SENDER: (
        r"\b(spf|dkim|dmarc|domainkeys|sender policy framework)\b|openspf",
        r"\bsender('s)? (e-?mail |mail )?(address|domain|policy|verif|id\b|is |was |not |invalid)",
        r"\bsender (rejected|refused|denied|blocked|unknown|invalid|blacklist|verify|does not exist|not found)",
        r"\b(invalid|bad|unknown|unverified|unauthori[sz]ed|forged|fake|null|banned|no such) sender",
        r"\bdomain of (the )?sender|\b(sending|your|unregistered|mail ?from) domain|\breturn[- ]path",
        r"\benvelope[- ](sender|from)\b|\bsend(ing)? (as|on behalf)\b|\bas this sender|\bfrom ~ not|\bfrom: domain",
        r"\b(return|reply|from|your)( e-?mail)? address|\boriginator|\bmail ?from:? ?\W?~(?!ip)",
        r"\bfrom[: ]+(header|address|domain)\b|\b(header|5322)\.?[- ]?from\b|\bemetteur invalide",
        r"\b(address|domain|identit\w+|e-?mail)( \w+)?( is| are| has| have)? not( been)? (verified"
        r"|authori[sz]ed|confirmed)",
        r"\bunverified (domain|identit)|\bnot (allowed|authori[sz]ed|permitted) to send|\bverified sender|\bcallout",
        r"\bin mail ?from\b|\bsender user\b|\bsender (does|do|did) not match\b|\bcan only (be used to )?send\b",
        r"\bmail from must|\boutbound sender|\bsuspected spam (sender|ip)|\bspoof",
        r"\b(exp[eé]diteur|absender\w*|remitente|remetente|mittente|nadawc[ay]|afzender|gönderen)\b[^.:;,]{0,15}"
        r"(\b(existe|existiert|esiste|istnieje|bestaat|inv[aá]lid|ung(ü|ue)ltig|nieznan|onbekend|bulunamad)"
        r"|inconnu|unbekannt|sconosc|descon)",
        r"отправител\w* .{0,15}\b(не|неизвест)|发件人.{0,6}不存在|送信元.{0,8}存在しません",
    ),
    Topic.LOGIN: (
        r"\b(un)?authenticat|\bauthentification|\bauth (is )?(required|failed)|\bnot logged",
        r"\blog ?in\b(?! to enable)|\bcredentials\b|\bpassword",
        r"\brelay\w*\b.{0,20}(denied|not|prohibit|forbid|disabled|refused|rejected)",
        r"\b(unable|not|cannot|no)( \w+){0,3} relay|\brcpthosts|\bforwarding .{0,30}disabled",
        r"\bhandle mail for\b(?! th(at|is) user)",
        r"\bstart ?tls|\b(tls|encryption) (is )?(required|needed)|\brequires (encryption|tls|high)|\bover a tls",
        r"\brelaying disallowed|\bnot a gateway|\blocal users? only|\bmust be (a )?(local|registered|authenticated)",
        r"\bpop account|\buser not authori[sz]ed",
        r"\bapi key\b|\baccess key\b|\bunauthori[sz]ed (ip|user|client)|\bno permission to|\bsmtp account\b",
        r"\b(license|token|session) (has |is )?expired|\bconfiguration set\b|\binsecure mail relay",
        r"\bnot authori[sz]ed to\b|\bwithout encryption|\byou are not an?\b",
        r"\bnot an? (authori[sz]ed|registered|trusted)|\bcertificate",
        r"\b(no|n[aã]o|non) autentica|\bcontrase[nñ]a|\bmot de passe|\bpasswort|\bkennwort|\bsenha\b",
        r"\bhas[lł][oa]\b|密码|密碼|パスワード|비밀번호",
        r"\bпарол",  # noqa: RUF001 - it is Russian
    ),
    Topic.ADDRESS: (
        r"\b(black|block|deny|ip)[- ]?list|\bblack listed|(?<!not )\blisted (at|in|by|on|with)\b|\bblocked using",
        r"\bdelist|\breputation|\b\w*rbl\b|dnsbl|\bspamhaus|\bspamcop|\bbarracuda|\bsorbs|\buceprotect|\bcloudmark",
        r"\bdue to listing|\bin the (?!user|mail|recip|account).{0,30}database|\byour access to|\bspam abuse",
        r"\b(your|sending|sender|connecting|client|source|originating)( \w+)? "
        r"(ip|ips|host|server|mta|network|hostname)\b",
        r"\b(from|this|your|the|bad|black|invalid) ip\b|\bfrom (this|your) (host|server|network)",
        r"\bdynamic (ip|address)|\bspammers?\b",
        r"\bips?\b.{0,40}(block|ban|reject|refus|denied|limit|not (allowed|accepted|authori))",
        r"\(ip based\)|\bover ipv6|\b(block|ban|reject|refus|denied)\w*.{0,30}\bips?\b",
        r"\breverse[ -](dns|lookup|host|entry|mapping|resol)|\br-?dns\b|\bptr\b|\bfcrdns|\b(helo|ehlo)\b",
        r"\bname lookup failed|\bnot accepting (connections|mail from|messages from)|\brefus\w+ to talk",
        r"\bdns (mx|a/)|\bnot allowed to connect",
        r"\bconnections? (is |was |will )?(not )?(be )?(refused|rejected|denied|blocked|accepted|dropped)",
        r"\b(refus|reject|block|den[yi])\w* (mail|messages?|connections?) from|\bclient host\b|\bhost network",
        r"\b(mail|messages?) from \W?~ip",
        r"~ip\W*(is |was |has been )?(listed|blacklist|block|ban|reject|refus|denied|found)|\brejecting open",
        r"\bfrom (an )?unknown|\brbl\+|\b(mi|rp|wm|hl):[a-z]{3}\b|\bbloqu[eé]e? pour incident|\bcsi\b",
        r"\bобратн\w+ .{0,10}\bdns",  # noqa: RUF001 - it is Russian
    ),
    Topic.LATER: (
        r"\b(try|retry)( again| it| your message| sending)* (later|in|after)\b|\bagain later|\btemporar",
        r"\bgr[ea]y ?list|\bdefer|\b(at|for) (this|the) (time|moment)\b|\bcurrently (unavailable|not)",
        r"\b(system|server|service) (is )?(too )?(busy|overload|unavailable|not available)(?!.{0,60}\bspam)",
        r"\bunder (way|maintenance)|\bin progress\b|\btimed? ?out\b|\bresources?\b.{0,20}unavailable|\boverload",
        r"\bcan ?not (be )?verif|\bcould not (be )?verif",
        r"\b(server|backend|database|transport|configuration) (is )?(not (be )?found|unavailable|down)\b",
        r"\b(internal|i/o|local) (server )?error|\bdelivery agent (is )?not|\bbeing rebuilt",
        r"\b(messages?|e?-?mails?|recipients) per (smtp )?(connection|session)\b",
        r"\btemporaire|\bvor(ü|ue)bergehend|\bsp(ä|ae)ter|\btemporal|\btempor[aâ]ne|\bm[aá]s tarde|\bmais tarde",
        r"\bpi[uù] tardi|\bplus tard|\bp[oó][zź]niej|\bpozzhe|\bvremenno",
        r"позже|временно|稍后|暂时|稍候",
    ),
    Topic.SPAM: (
        r"\bspam|\bvirus|\bmalware|\bphish|\bunsolicited|\bjunk|\bsuspici|\burls?\b|\b(sur|uri)bl\b",
        r"\b(message|e?-?mail) contains an? (link|url|attachment|invalid|unknown)\b",
        r"\bbulk (e-?)?mail|\bmassmail|\bspamverdacht",
        r"\bспам|垃圾",  # noqa: RUF001 - it is Russian
    ),
    Topic.HELD: (
        rf"\b{_PERSON}\b(?!.{{0,60}}inactiv).{{0,40}}?\b(suspended|locked|blocked|frozen|hangup|on hold)\b",
        r"\b(suspended|locked|blocked|frozen) (user|account|mail ?box|recipient)\b|\bcompte .{0,30}bloqu",
        r"\baccount inbounds disabled",
    ),
    Topic.GONE: (
        rf"\b(no|unknown|invalid|bad|non[- ]?exist\w+|undeliverable|inactive|disabled|deactivated|illegal|bogus"
        rf"|expired|archived)[- ]((such|local|valid|e-?mail|virtual|mail|destination|final|delivery|or illegal"
        rf"|one by that) )*{_PERSON}\b",
        rf"\b{_PERSON}\b{_OF_IT}\b(unknown|no longer|invalid|disabled|inactive|deactivated|closed"
        rf"|unallocated|discontinued|deleted|terminated|expired|dormant|moved|abandoned|retired|inactivity|bogus"
        rf"|archived|unrecogni[sz]ed|misspel\w+)\b",
        rf"\b{_PERSON}\b{_OF_IT}\bnot (be )?(found|exist|known|valid|recogni[sz]ed|activated|listed|here|local"
        rf"|located|deliverable|present)\b",
        rf"\bnot (be )?(a|an|our) (\w+ )?(known |valid |active |local |existing )?{_PERSON}\b",
        rf"\bnot a valid (\S+ ){{0,2}}{_PERSON}\b",
        r"\bnon-?existent hosts?\b",
        r"\bnosuchuser\b|\bmarked as invalid|~\W{0,20}is invalid",
        r"\bnot in .{0,10}(validrcptto|recipient (list|map|table))",
        r"\bbadr(cpt|ecipient)to|~\W{0,20}(does not exist|not found|is (now )?(disabled|no longer)|unknown)",
        r"\bno recipient activity",
        r"\bknows? (nobody|no ?one)\b|\bno (such|one|mailbox)\b.{0,20}(here|address)",
        r"\bhas left\b|\bnew owner\b|\bno longer on server",
        r"\bnot (have |hold )?(our|a|an) ([\w.]+ )?(customer|user|mailbox|account|recipient)\b",
        r"\bno longer (here|employed|with|works|valid|available|in use|exist|active)",
        r"\bnot (in|present in) .{0,10}directory|\bno \S+ in name directory",
        r"\b(domain|host)( name)?\b.{0,30}not (be )?(found|exist|known|valid)|\bno such domain",
        r"\bunknown (host|domain)|\bhost (is )?unknown|\bno mail hosts|\bunknown local[- ]?part",
        r"\brecip(ient)?not ?found|\bnxdomain\b|\bnull ?mx\b|\b(no|resolving the) mx\b|\bunroute?able",
        r"\bdoes no exist|\bmember of (the )?domain|\bhandle mail for th(at|is) user|\baccount\b.{0,40}\bbeen removed",
        r"\bbad destination\b|\bbad address syntax",
        # German
        r"(empf(ä|ae)nger|adressat|benutzer|nutzer|adresse|postfach|konto) .{0,30}(unbekannt|ung(ü|ue)ltig|deaktiviert"
        r"|gel(ö|oe)scht)",
        r"\bnicht (im|in) .{0,20}(verzeichnis|aufgef(ü|ue)hrt)|\bkein(en?)? (postfach|benutzer|empf(ä|ae)nger|konto)\b",
        r"existiert nicht|nicht (gefunden|vorhanden|bekannt|mehr g(ü|ue)ltig)",
        # French
        r"destinataire .{0,20}(inconnu|invalide|inexistant|archiv)|utilisateur .{0,20}(inconnu|inexistant)",
        r"n'existe (pas|plus)|adresse .{0,20}(inconnu|inexistant)",
        r"compte .{0,20}(clos|ferm[eé]|supprim[eé]|d[eé]sactiv[eé]|inexistant)",
        # Spanish, Portuguese, Italian
        r"no existe|n[aã]o existe|non esiste|in(es|ex)istente|nessun utente|\bnon trovat[oa]",
        r"\b(no|n[aã]o) (encontrad|registrad|cadastrad)[oa]",
        r"(usu[aá]rio|destinat[aá]rio|utente|cuenta|conta|direcci[oó]n|endere[cç]o|indirizzo) .{0,20}(descon"
        r"|scono|inv[aá]lid)",
        r"(usu[aá]rio|cuenta|conta|buz[oó]n|casilla|casella|utente|indirizzo) .{0,30}(ina(c?)tiv|desa(c?)tivad"
        r"|deshabilitad|disattivat|dada de baja|expirad|inutilizz)",
        # Dutch, Swedish, Danish, Norwegian, Finnish
        r"bestaat niet|\bonbekend|finns inte|fin(des|nes|ns) ikke|\bukendt|\bukjent|\b(ei löydy|tuntematon)",
        # Polish, Czech, Hungarian, Romanian, Croatian
        r"nie istnieje|nie ma takiego|\bnieznany|konto .{0,40}nieaktywn|neexistuje|\bnenalezen",
        r"\b(nem létezik|nu exist[aă]|ne postoji)",
        # Russian, also in Latin letters, and Ukrainian
        r"не (существует|найден)|нет такого|неизвестн|пользовател\w+ нет|не (існує|знайдено)|невідом",
        r"\bne (su(s|sh)ch?estvuet|nai?jy?den)|\btakogo .{0,20}\bnet\b",
        # Turkish, Vietnamese
        r"\bmevcut değil|\bbulunamad|\bkhông tồn tại",
        # Chinese, Japanese, Korean
        r"不存在|无此用户|没有该用户|查無此|無此|(用户|帐户|账户|邮箱|帐号|账号).{0,6}(禁用|停用|删除|注销)",
        r"存在しません|宛先不明|見つかりません|존재하지 않|없는 (사용자|주소|계정)",
    ),
    Topic.CONTENT: (
        r"\bblock(ed)?\b|\bpolicy|\bpolicies|\bprohibit|\bcontent\b|\battachment|\bmime\b|\bheaders?\b|\bmailpolicy",
        r"\bfilter|\brestricti|\brestricted|\bquarantin|\bunsafe|\bviolat|\bdetected by",
        r"\b(message|mail) (was |has been |is )?(rejected|refused|not (accepted|allowed))|\bmail rejet",
    ),
    Topic.REFUSED: (
        r"\brecipient address(es)? rejected ?: access denied",
        r"\baddress rejected\W*(~\W*)?$",
    ),
    Topic.ABSENT: (
        rf"\b{_PERSON}\b{_OF_IT}\b(unavail?able|not (available|active|reachable)|unreachable)\b",
        r"\bunavail?able (mail|user|recipient|address)",
    ),
}  # fmt: skip
_COMPILED = compile_phrases(_PHRASES)

_LINK_ABOUT_US = re.compile(
    r"(block|black)-?list|\brbl|dnsbl|spamhaus|spamcop|sorbs|uceprotect|barracudacentral|/ip/|[?&]ip=|\bdelist|removal",
    re.IGNORECASE,
)
"""A server that gives a reason by a link to it names a list of senders."""


def topic_of(text: str) -> Topic | None:
    """What ``text``, the words of a refusal, speaks of; None when they say nothing that is known."""
    words, links = plain_words(text), links_in(text)
    for topic, pattern in _COMPILED.items():
        if pattern.search(words) or (topic is Topic.ADDRESS and any(map(_LINK_ABOUT_US.search, links))):
            return topic
    return None
