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
