"""What a refusal may be about: the words of phrases, of doubts, and of the table from topics to causes in replies."""

from enum import Enum, auto


class Topic(Enum):
    """What a refusal is about."""

    GAVE_UP = auto()
    """A relay tried for as long as it tries, and nobody answered it."""
    RECEIVER_BUSY = auto()
    """The recipient gets too much mail at the moment."""
    FORM = auto()
    """The message breaks a rule of how messages are written."""
    TOO_BIG = auto()
    """The message is larger than they take."""
    QUOTA = auto()
    """We send too much, or our account may not send."""
    FULL = auto()
    """The recipient's mailbox has no room."""
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
    HELD = auto()
    """The mailbox is there and somebody holds it: locked, suspended, blocked."""
    GONE = auto()
    """The recipient's address does not exist any more, or never did."""
    CONTENT = auto()
    """The content breaks a rule, or a rule that nobody tells."""
    REFUSED = auto()
    """The recipient is refused, in words that say nothing more."""
    ABSENT = auto()
    """The mailbox is not to be had, for whatever reason; what most servers say of one that does not exist."""
