"""How a worker claims: what its channel's settings say of it."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from shared.channel import Channel
from shared.retry import UNANSWERED_STEP


class ChannelSettings(Protocol):
    """What the settings of every channel service have in common."""

    @property
    def slots(self) -> int:
        """Sends at once."""

    @property
    def lease(self) -> timedelta:
        """How long a claim lasts."""

    @property
    def attempt_timeout(self) -> timedelta:
        """The hard limit of one send."""

    @property
    def lease_margin(self) -> timedelta:
        """The end of a lease in which no send may run any more."""

    @property
    def poll_busy(self) -> timedelta:
        """The longest wait between two looks at the table while there is work."""

    @property
    def poll_idle(self) -> timedelta:
        """The same while there is none."""

    @property
    def unanswered_step(self) -> timedelta:
        """The first wait after a silence."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How one worker claims: ``slots`` sends at once, each under ``attempt_timeout`` within a ``lease``.

    A send starts only while ``lease`` − ``attempt_timeout`` − ``margin`` has not passed since the claim.
    """

    channel: Channel
    name: str
    slots: int
    lease: timedelta
    attempt_timeout: timedelta
    margin: timedelta
    poll_busy: timedelta
    poll_idle: timedelta
    unanswered_step: timedelta = UNANSWERED_STEP

    @classmethod
    def of(cls, channel: Channel, name: str, settings: ChannelSettings) -> "WorkerSettings":
        """The part of a channel service's settings that its worker goes by."""
        return cls(
            channel,
            name,
            settings.slots,
            settings.lease,
            settings.attempt_timeout,
            settings.lease_margin,
            settings.poll_busy,
            settings.poll_idle,
            settings.unanswered_step,
        )
