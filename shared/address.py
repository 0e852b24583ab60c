"""What a mail address must look like to be taken: one rule for the edge, the tenant file and the mail itself.

Exactly one ASCII address in the form that every relay takes (RFC 5321's dot-string at a domain name). Quoted
local parts and address literals are legal and refused all the same: where they turn up, they are mistakes or
attempts to smuggle something in.
"""

import re

LONGEST_ADDRESS = 254
"""RFC 5321 4.5.3.1.3, without the angle brackets."""
LONGEST_LOCAL_PART = 64
LONGEST_DOMAIN = 253
_ATOM = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+", re.ASCII)
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?", re.ASCII)
_SEVERAL = frozenset(",;<>")


def address_problem(text: str) -> str | None:
    """What is wrong with ``text`` as one mail address, or None when it is one.

    The answer reads after the name of the field and never repeats the address: "needs an @".
    """
    if not text:
        return "is empty"
    if not text.isascii():
        return _problem_beyond_ascii(text)
    if any(character <= " " or character == "\x7f" for character in text):
        return "has a space or a control character in it"
    if _SEVERAL & set(text) or text.count("@") > 1:
        return "must be exactly one address, without a display name"
    if "@" not in text:
        return "needs an @"
    if len(text) > LONGEST_ADDRESS:
        return f"is longer than {LONGEST_ADDRESS} characters"
    local, _, domain = text.partition("@")
    return _local_part_problem(local) or _domain_problem(domain)


def normal_address(text: str) -> str:
    """``text`` in the one form in which addresses are compared: lower case, without blanks around it.

    Letter case before the @ may mean something by the rules; nobody gives two people addresses that differ in it.
    """
    return text.strip().lower()


def _problem_beyond_ascii(text: str) -> str:
    if text.rpartition("@")[0].isascii() and "@" in text:
        return "has a domain beyond ASCII: write it in its xn-- form"
    return "has characters beyond ASCII, which needs SMTPUTF8: not yet supported"


def _local_part_problem(local: str) -> str | None:
    if not local:
        return "has nothing before the @"
    if len(local) > LONGEST_LOCAL_PART:
        return f"has more than {LONGEST_LOCAL_PART} characters before the @"
    if "" in local.split("."):
        return "has a dot too many before the @"
    if not all(_ATOM.fullmatch(atom) for atom in local.split(".")):
        return "has a character before the @ that may not stand there"
    return None


def _domain_problem(domain: str) -> str | None:
    if not domain:
        return "has nothing after the @"
    if domain.startswith("["):
        return "needs a domain name after the @, not a network address"
    labels = domain.split(".")
    if len(domain) > LONGEST_DOMAIN or not all(_LABEL.fullmatch(label) for label in labels):
        return "has no valid domain name after the @"
    if len(labels) < 2:  # noqa: PLR2004 - its meaning stands beside it
        return "needs a whole domain name after the @, with a dot in it"
    if labels[-1].isdigit():
        return "needs a domain name after the @, not a network address"
    return None
