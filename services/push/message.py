"""From rendered content to the message that firebase-admin sends: one per target, alike but for the token."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from shared.content import PushContent

JOB_KEY = "waybill_job"
LINK_KEY = "waybill_link"
"""What the app finds in the data beside the rule's own: the job's id, and where a tap leads."""
LONGEST_TTL = timedelta(days=28)
"""What push services keep a message for at most."""
SHORTEST_TTL = timedelta(seconds=1)
"""With 0 a phone that sleeps never hears of it, and Microsoft refuses it."""


@dataclass(frozen=True, slots=True)
class Letter:
    """What is sent to every target of a job; ``stable_id`` is the same at each attempt, so that repeats are hidden."""

    content: PushContent
    stable_id: UUID
    unread_count: int

    @property
    def badge(self) -> int | None:
        """The number on the app's icon; None leaves it as it is."""
        return self.unread_count if self.content.badge == "unread" else None

    def kept_for(self, lives: timedelta) -> "Letter":
        """The same letter, kept by no push service for longer than it ``lives``."""
        ttl = max(min(self.content.ttl or LONGEST_TTL, lives, LONGEST_TTL), SHORTEST_TTL)
        return replace(self, content=replace(self.content, ttl=timedelta(seconds=int(ttl.total_seconds()))))


def write_message(sdk: Any, token: str, letter: Letter, now: datetime) -> Any:
    """A message of ``sdk`` (firebase_admin.messaging, which only one file imports) to the phone behind ``token``."""
    content = letter.content
    message = sdk.Message(
        data=_data(letter),
        notification=sdk.Notification(title=content.title, body=content.body),
        android=_android(sdk, letter),
        apns=_apple(sdk, letter, now),
        webpush=_web(sdk, letter),
    )
    # Not in the constructor, where it warns: Firebase prefers installation ids, phones still send tokens.
    message.token = token
    return message


def least_size(letter: Letter) -> int:
    """Bytes that reach a phone at the least: the texts and the data. What Firebase wraps them in comes on top."""
    texts = [letter.content.title, letter.content.body, *(text for pair in _data(letter).items() for text in pair)]
    return sum(len(text.encode()) for text in texts)


def _data(letter: Letter) -> dict[str, str]:
    data = {JOB_KEY: f"job_{letter.stable_id.hex}"}
    link = letter.content.link
    if link is not None:
        data[LINK_KEY] = link.app or link.url
    return data | letter.content.data


def _android(sdk: Any, letter: Letter) -> Any:
    content = letter.content
    return sdk.AndroidConfig(
        # From the rule only: FCM keeps four keys a device, one of each job would push other messages out.
        collapse_key=content.collapse,
        priority=None if content.urgency is None else "high" if content.urgency == "high" else "normal",
        ttl=content.ttl,
        notification=sdk.AndroidNotification(
            tag=letter.stable_id.hex,
            channel_id=content.android.channel_id,
            icon=content.android.icon,
            notification_count=letter.badge,
        ),
    )


def _apple(sdk: Any, letter: Letter, now: datetime) -> Any:
    content = letter.content
    headers = {"apns-collapse-id": letter.stable_id.hex}
    if content.urgency is not None:
        headers["apns-priority"] = "10" if content.urgency == "high" else "5"
    if content.ttl is not None:
        headers["apns-expiration"] = str(int((now + content.ttl).timestamp()))
    aps = sdk.Aps(badge=letter.badge, sound=content.apple.sound, thread_id=content.apple.thread_id)
    return sdk.APNSConfig(headers=headers, payload=sdk.APNSPayload(aps=aps))


def _web(sdk: Any, letter: Letter) -> Any:
    content = letter.content
    headers = {"Topic": letter.stable_id.hex}
    if content.urgency is not None:
        headers["Urgency"] = content.urgency
    if content.ttl is not None:
        headers["TTL"] = str(int(content.ttl.total_seconds()))
    # Firebase refuses any other link than https.
    link = content.link.url if content.link is not None and content.link.url.startswith("https://") else None
    return sdk.WebpushConfig(
        headers=headers,
        notification=sdk.WebpushNotification(icon=content.web.icon, tag=letter.stable_id.hex),
        fcm_options=None if link is None else sdk.WebpushFCMOptions(link=link),
    )
