"""The few words that Waybill itself puts into mails, in the languages it knows; English in all others."""

_OPEN = {
    "da": "Åbn",
    "de": "Öffnen",
    "en": "Open",
    "es": "Abrir",
    "fi": "Avaa",
    "fr": "Ouvrir",
    "it": "Apri",
    "nl": "Openen",
    "nb": "Åpne",
    "pl": "Otwórz",
    "pt": "Abrir",
    "sv": "Öppna",
    "tr": "Aç",
    "uk": "Відкрити",
}
_UNSUBSCRIBE = {
    "da": "Afmeld",
    "de": "Abbestellen",
    "en": "Unsubscribe",
    "es": "Darse de baja",
    "fi": "Peruuta tilaus",
    "fr": "Se désabonner",
    "it": "Annulla l’iscrizione",
    "nl": "Afmelden",
    "nb": "Meld deg av",
    "pl": "Wypisz się",
    "pt": "Cancelar subscrição",
    "sv": "Avregistrera",
    "tr": "Abonelikten çık",  # noqa: RUF001 - Turkish writes it so
    "uk": "Відписатися",
}


def open_word(locale: str) -> str:
    """What a button says that was given no words."""
    return _in(locale, _OPEN)


def unsubscribe_word(locale: str) -> str:
    """What the link says that ends such mails."""
    return _in(locale, _UNSUBSCRIBE)


def _in(locale: str, words: dict[str, str]) -> str:
    return words.get(locale.replace("_", "-").split("-")[0].lower(), words["en"])
