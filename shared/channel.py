"""The channels a job can go out on."""

from enum import StrEnum


class Channel(StrEnum):
    """One way to reach a recipient; the word stored in ``outgoing.channel``."""

    INAPP = "inapp"
    """An entry in the recipient's inbox."""
    EMAIL = "email"
    """A mail to the recipient's address."""
    PUSH = "push"
    """A notification on the recipient's phones and browsers."""


CHANNEL_NUMBERS = {Channel.INAPP: 1, Channel.EMAIL: 2, Channel.PUSH: 3}
"""The number of each channel in job ids (1 to 15). Never reused, never changed."""

BUILT_CHANNELS = (Channel.INAPP, Channel.EMAIL, Channel.PUSH)
"""The channels this release can send on; the tenant file refuses the others as "not yet"."""
