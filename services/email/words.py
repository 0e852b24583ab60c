"""The words of a refusal as regular expressions are held against them."""

import re
from collections.abc import Mapping, Sequence

from services.email.topics import Topic

LONGEST_READ = 1000
"""Of a refusal, in characters: the reason stands in them, and they are what bounds the time that reading takes."""

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_URL = re.compile(r"\bhttps?:[^\s<>()\[\]]*", re.IGNORECASE)
_MAILBOX = re.compile(r"[^\s<>:;,()\[\]]+@[^\s<>:;,()\[\]\u3000-\u303f\uff00-\uff20]+")
_NETWORK_ADDRESS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)")


def compile_phrases(phrases: Mapping[Topic, Sequence[str]]) -> dict[Topic, re.Pattern[str]]:
    """One expression for all phrases of a topic, in the order of ``phrases``."""
    return {topic: re.compile("|".join(of_topic)) for topic, of_topic in phrases.items()}


def links_in(text: str) -> list[str]:
    """The web addresses that ``plain_words`` leaves out."""
    return _URL.findall(text[:LONGEST_READ])


def plain_words(text: str) -> str:
    """The words as phrases expect them; addresses and links are taken out: their letters are nobody's words."""
    text = text[:LONGEST_READ]
    words = _NETWORK_ADDRESS.sub("~ip", _MAILBOX.sub("~", _URL.sub(" ", text)))
    return " ".join(_CAMEL.sub(" ", words).replace("_", " ").lower().replace("’", "'").replace("n't", " not").split())
