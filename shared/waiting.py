"""What a PENDING job waits for, in words for people: one table for API, console, command line and documents."""

from dataclasses import dataclass
from enum import StrEnum


class Wait(StrEnum):
    """What a PENDING job waits for. It is never stored: it is what the job, its attempts and the pauses come to."""

    IN_HAND = "in_hand"
    WORKER = "worker"
    PAUSED = "paused"
    NO_ACCOUNT = "no_account"
    NO_VAPID_KEY = "no_vapid_key"
    NO_CONTACT = "no_contact"
    NO_EMAIL_SENDER = "no_email_sender"
    CREDENTIAL = "credential"
    REFUSED = "refused"
    PERHAPS_REFUSED = "perhaps_refused"
    DEFERRED = "deferred"
    SILENCE = "silence"
    LOST = "lost"
    PUT_OFF = "put_off"


@dataclass(frozen=True, slots=True)
class WaitText:
    """One wait in words: what it means and what to do next."""

    meaning: str
    next_step: str


WAITS: dict[Wait, WaitText] = {
    Wait.IN_HAND: WaitText(
        "A worker has it in hand right now.",
        "Nothing; look again in a moment.",
    ),
    Wait.WORKER: WaitText(
        "It is due, and no worker has taken it yet: they are busy, or what it goes through does not answer them.",
        "Nothing for a minute; then see whether its service runs, and look for delivery.breaker_opened in its log.",
    ),
    Wait.PAUSED: WaitText(
        "An operator has paused it.",
        "It goes out once `waybill resume` ends the pause; `waybill pauses` names it. It still expires in its time.",
    ),
    Wait.NO_ACCOUNT: WaitText(
        "The tenant has no Firebase account to push to phones with.",
        "Name one in the tenant file under senders.push.fcm and apply it; nothing has to be retried.",
    ),
    Wait.NO_VAPID_KEY: WaitText(
        "The tenant has no VAPID key to push to browsers with.",
        "Make one with `waybill sender vapid`; nothing has to be retried.",
    ),
    Wait.NO_CONTACT: WaitText(
        "Push services want to know whom to write to, and the tenant file does not say.",
        "Set senders.push.webpush.contact in the tenant file and apply it; nothing has to be retried.",
    ),
    Wait.NO_EMAIL_SENDER: WaitText(
        "The tenant has no address to send mail from.",
        "Set senders.email.from in the tenant file and apply it; nothing has to be retried.",
    ),
    Wait.CREDENTIAL: WaitText(
        "The tenant's credential for this channel cannot be used; the detail says why.",
        "Mend what the tenant file refers to and apply it; nothing has to be retried.",
    ),
    Wait.REFUSED: WaitText(
        "The provider refuses the sender, not this message; the detail has its words.",
        "Mend the login, key, address or quota it names; one job at a time tries again by itself.",
    ),
    Wait.PERHAPS_REFUSED: WaitText(
        "A provider of this channel refuses us, likely the one this job goes through; the detail has its words.",
        "Look at `waybill pauses` and mend what it names; one job at a time tries again by itself.",
    ),
    Wait.DEFERRED: WaitText(
        "The provider said 'not now' to this message.",
        "Nothing; it is tried again when it is due.",
    ),
    Wait.SILENCE: WaitText(
        "The provider did not answer, which costs no attempt.",
        "Nothing; it is tried again when it is due, until it expires. If it lasts, see whether the provider is down.",
    ),
    Wait.LOST: WaitText(
        "The worker that had it in hand has died.",
        "Nothing; another one takes it.",
    ),
    Wait.PUT_OFF: WaitText(
        "It was put off without an attempt: what it goes through does not answer, is tried out by another job, or is at"
        " its limit.",
        "Nothing; it is looked at again when it is due. If it lasts, look for delivery.breaker_opened in the log.",
    ),
}
