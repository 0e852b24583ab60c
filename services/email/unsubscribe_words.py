"""What the unsubscribe page says, in the languages it knows. Another one is another entry in the table."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """All texts in one language; ``{sender}`` and ``{category}`` stand for their names."""

    ask_title: str
    ask: str
    stop: str
    """The button."""
    stopped_title: str
    stopped: str
    resume: str
    """The button."""
    resumed_title: str
    resumed: str
    stays_title: str
    stays: str
    unknown_title: str
    unknown: str
    failed_title: str
    failed: str


ENGLISH = Words(
    ask_title="Unsubscribe?",
    ask="No more e-mails from {sender} about “{category}”. All other e-mails stay as they are.",
    stop="Unsubscribe",
    stopped_title="You are unsubscribed",
    stopped="{sender} will send you no more e-mails about “{category}”. One that is on its way may still arrive.",
    resume="Subscribe again",
    resumed_title="You are subscribed",
    resumed="{sender} will send you e-mails about “{category}” again.",
    stays_title="These e-mails cannot be switched off",
    stays="E-mails from {sender} about “{category}” are sent to everybody whom they concern. If they should not reach "
    "you at all, reply to one of them and say so.",
    unknown_title="This link does not work",
    unknown="A part of it may be missing. Open the e-mail once more and follow its link, or copy all of it. If that "
    "does not help, reply to the e-mail and ask to be unsubscribed.",
    failed_title="That did not work just now",
    failed="Nothing was changed. Please try again in a minute.",
)
ALL_WORDS = {
    "en": ENGLISH,
    "de": Words(
        ask_title="Abbestellen?",
        ask="Keine E-Mails von {sender} über „{category}“ mehr. Alle anderen E-Mails bleiben, wie sie sind.",
        stop="Abbestellen",
        stopped_title="Abbestellt",
        stopped="Es kommen keine E-Mails von {sender} über „{category}“ mehr. Was schon unterwegs ist, kann noch "
        "ankommen.",
        resume="Wieder bestellen",
        resumed_title="Wieder bestellt",
        resumed="E-Mails von {sender} über „{category}“ kommen wieder.",
        stays_title="Diese E-Mails lassen sich nicht abbestellen",
        stays="E-Mails von {sender} über „{category}“ gehen an alle, die sie betreffen. Kommen sie bei der falschen "
        "Person an, genügt eine Antwort auf eine davon.",
        unknown_title="Dieser Link funktioniert nicht",
        unknown="Vielleicht fehlt ein Teil davon. Bitte die E-Mail noch einmal öffnen und dem Link folgen oder ihn "
        "ganz kopieren. Hilft das nicht, genügt eine Antwort auf die E-Mail mit der Bitte, sie abzubestellen.",
        failed_title="Das hat gerade nicht geklappt",
        failed="Nichts wurde geändert. Bitte in einer Minute noch einmal versuchen.",
    ),
    "es": Words(
        ask_title="¿Darse de baja?",
        ask="No más correos de {sender} sobre «{category}». Los demás correos siguen igual.",
        stop="Darse de baja",
        stopped_title="Baja confirmada",
        stopped="{sender} no enviará más correos sobre «{category}». Es posible que aún llegue alguno que ya está en "
        "camino.",
        resume="Volver a suscribirse",
        resumed_title="Suscripción activa",
        resumed="{sender} volverá a enviar correos sobre «{category}».",
        stays_title="Estos correos no se pueden desactivar",
        stays="Los correos de {sender} sobre «{category}» se envían a todas las personas a las que conciernen. Si no "
        "deberían llegar a esta dirección, basta con responder a uno de ellos.",
        unknown_title="Este enlace no funciona",
        unknown="Quizá le falta una parte. Abra de nuevo el correo y siga su enlace, o cópielo entero. Si no sirve, "
        "responda al correo y pida la baja.",
        failed_title="No ha funcionado en este momento",
        failed="No se ha cambiado nada. Inténtelo de nuevo dentro de un minuto.",
    ),
    "fr": Words(
        ask_title="Se désabonner ?",
        ask="Plus d’e-mails de {sender} au sujet de « {category} ». Tous les autres e-mails restent inchangés.",
        stop="Se désabonner",
        stopped_title="Désabonnement confirmé",
        stopped="{sender} n’enverra plus d’e-mails au sujet de « {category} ». Un e-mail déjà en route peut encore "
        "arriver.",
        resume="Se réabonner",
        resumed_title="Abonnement rétabli",
        resumed="{sender} enverra de nouveau des e-mails au sujet de « {category} ».",
        stays_title="Ces e-mails ne peuvent pas être désactivés",
        stays="Les e-mails de {sender} au sujet de « {category} » sont envoyés à toutes les personnes concernées. "
        "S’ils ne devraient pas vous parvenir, répondez à l’un d’eux pour le signaler.",
        unknown_title="Ce lien ne fonctionne pas",
        unknown="Il en manque peut-être une partie. Rouvrez l’e-mail et suivez son lien, ou copiez-le en entier. Si "
        "cela ne suffit pas, répondez à l’e-mail et demandez votre désabonnement.",
        failed_title="Cela n’a pas fonctionné pour le moment",
        failed="Rien n’a été modifié. Veuillez réessayer dans une minute.",
    ),
    "it": Words(
        ask_title="Annullare l’iscrizione?",
        ask="Niente più e-mail da {sender} su «{category}». Tutte le altre e-mail restano come sono.",
        stop="Annulla l’iscrizione",
        stopped_title="Iscrizione annullata",
        stopped="{sender} non invierà più e-mail su «{category}». Un’e-mail già in viaggio può ancora arrivare.",
        resume="Iscriviti di nuovo",
        resumed_title="Iscrizione attiva",
        resumed="{sender} invierà di nuovo e-mail su «{category}».",
        stays_title="Queste e-mail non si possono disattivare",
        stays="Le e-mail da {sender} su «{category}» sono inviate a tutte le persone interessate. Se non dovrebbero "
        "arrivare a questo indirizzo, basta rispondere a una di esse.",
        unknown_title="Questo link non funziona",
        unknown="Forse ne manca una parte. Apri di nuovo l’e-mail e segui il link, oppure copialo per intero. Se non "
        "basta, rispondi all’e-mail e chiedi di annullare l’iscrizione.",
        failed_title="Al momento non ha funzionato",
        failed="Non è stato modificato nulla. Riprova tra un minuto.",
    ),
    "nl": Words(
        ask_title="Afmelden?",
        ask="Geen e-mails meer van {sender} over “{category}”. Alle andere e-mails blijven zoals ze zijn.",
        stop="Afmelden",
        stopped_title="Afgemeld",
        stopped="{sender} stuurt geen e-mails meer over “{category}”. Een e-mail die al onderweg is, kan nog aankomen.",
        resume="Opnieuw aanmelden",
        resumed_title="Aangemeld",
        resumed="{sender} stuurt weer e-mails over “{category}”.",
        stays_title="Deze e-mails kunnen niet worden uitgezet",
        stays="E-mails van {sender} over “{category}” gaan naar iedereen die ze aangaan. Horen ze niet op dit adres "
        "aan te komen, beantwoord dan een ervan.",
        unknown_title="Deze link werkt niet",
        unknown="Misschien ontbreekt er een deel van. Open de e-mail nog eens en volg de link, of kopieer hem "
        "helemaal. Helpt dat niet, beantwoord dan de e-mail en vraag om afmelding.",
        failed_title="Dat lukte zojuist niet",
        failed="Er is niets veranderd. Probeer het over een minuut opnieuw.",
    ),
    "pt": Words(
        ask_title="Cancelar a subscrição?",
        ask="Não haverá mais e-mails de {sender} sobre «{category}». Todos os outros e-mails ficam como estão.",
        stop="Cancelar a subscrição",
        stopped_title="Subscrição cancelada",
        stopped="{sender} não enviará mais e-mails sobre «{category}». Um que já esteja a caminho ainda pode chegar.",
        resume="Subscrever de novo",
        resumed_title="Subscrição ativa",
        resumed="{sender} voltará a enviar e-mails sobre «{category}».",
        stays_title="Estes e-mails não podem ser desativados",
        stays="Os e-mails de {sender} sobre «{category}» são enviados a todas as pessoas a quem dizem respeito. Se não "
        "deviam chegar a este endereço, basta responder a um deles.",
        unknown_title="Este link não funciona",
        unknown="Talvez falte uma parte. Abra de novo o e-mail e siga o link, ou copie-o por inteiro. Se isso não "
        "ajudar, responda ao e-mail e peça o cancelamento.",
        failed_title="De momento não foi possível",
        failed="Nada foi alterado. Tente de novo dentro de um minuto.",
    ),
    "sv": Words(
        ask_title="Avregistrera?",
        ask="Inga fler mejl från {sender} om ”{category}”. Alla andra mejl fortsätter som förut.",
        stop="Avregistrera",
        stopped_title="Avregistrerad",
        stopped="{sender} skickar inga fler mejl om ”{category}”. Ett som redan är på väg kan fortfarande komma.",
        resume="Registrera igen",
        resumed_title="Registrerad",
        resumed="{sender} skickar mejl om ”{category}” igen.",
        stays_title="De här mejlen går inte att stänga av",
        stays="Mejl från {sender} om ”{category}” skickas till alla som de berör. Om de inte borde komma till den här "
        "adressen räcker det att svara på ett av dem.",
        unknown_title="Länken fungerar inte",
        unknown="Kanske saknas en del av den. Öppna mejlet igen och följ länken, eller kopiera hela. Hjälper det inte, "
        "svara på mejlet och be om att bli avregistrerad.",
        failed_title="Det gick inte just nu",
        failed="Ingenting har ändrats. Försök igen om en minut.",
    ),
}


def words_in(wanted: Iterable[str]) -> tuple[str, Words]:
    """The first language of ``wanted`` that is known, and its words; English when none of them is."""
    languages = (locale.replace("_", "-").partition("-")[0].lower() for locale in wanted)
    found = next((language for language in languages if language in ALL_WORDS), "en")
    return found, ALL_WORDS[found]


def languages_accepted(header: str) -> list[str]:
    """The languages in an Accept-Language header, the most wanted first; what is refused or unreadable is left out."""
    weighed = []
    for entry in header[:500].split(","):
        name, _, weight = entry.partition(";")
        try:
            quality = float(weight.partition("=")[2] or 1)
        except ValueError:
            continue
        if name.strip() and quality > 0:
            weighed.append((-quality, name.strip()))
    return [name for _, name in sorted(weighed, key=lambda one: one[0])]
