"""JSON Pointers (RFC 6901), fit to stand in an answer whatever the keys were."""

LONGEST_KEY = 100


def child(pointer: str, key: str | int) -> str:
    """``pointer`` one step further down; over-long keys are cut, characters that cannot be sent are replaced."""
    text = str(key)
    if len(text) > LONGEST_KEY:
        text = text[:LONGEST_KEY] + "…"
    text = text.replace("~", "~0").replace("/", "~1")
    return f"{pointer}/{printable(text)}"


def printable(text: str) -> str:
    """``text`` with lone surrogates replaced, so that it can be encoded."""
    return text.encode("utf-8", "replace").decode()
