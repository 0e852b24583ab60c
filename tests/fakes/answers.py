"""What the peers of all providers do, in the same words for each of them."""

from enum import StrEnum, auto

from tests.fakes import fcm, smtp_script, webpush
from tests.fakes.fcm import Act


class Answer(StrEnum):
    """What a peer does with every message from now on, in words that fit all of them."""

    TAKES = auto()
    REFUSES = auto()
    IS_DEAD = auto()
    LATER = auto()
    IS_DOWN = auto()
    BLOCKS_US = auto()
    SAYS_GARBAGE = auto()
    HANGS_UP = auto()
    IS_SILENT = auto()
    IS_SLOW = auto()
    """It takes them when it is told to."""


OF_RELAYS: dict[Answer, tuple[tuple[str, smtp_script.Act], ...]] = {
    Answer.TAKES: (),
    Answer.REFUSES: (("eod", smtp_script.Reply(550, "5.6.0 malformed message")),),
    Answer.IS_DEAD: (("rcpt", smtp_script.Reply(550, "5.1.1 no such user")),),
    Answer.LATER: (("rcpt", smtp_script.Reply(450, "4.2.1 mailbox busy, try again later")),),
    Answer.IS_DOWN: (
        ("connect", smtp_script.Reply(421, "4.3.0 closing")),
        ("mail", smtp_script.Reply(421, "4.3.0")),
    ),
    Answer.BLOCKS_US: (("mail", smtp_script.Reply(550, "5.7.1 your IP address is blocked")),),
    Answer.SAYS_GARBAGE: (("eod", smtp_script.Raw(b"\x00\xff nonsense\r\n")),),
    Answer.HANGS_UP: (("eod", smtp_script.Drop()),),
    Answer.IS_SILENT: (("eod", smtp_script.Stall()),),
}
OF_FIREBASE: dict[Answer, Act | None] = {
    Answer.TAKES: None,
    Answer.REFUSES: fcm.Refuse(400, "INVALID_ARGUMENT", "bad data", "INVALID_ARGUMENT", at_field="message.data"),
    Answer.IS_DEAD: fcm.UNREGISTERED,
    Answer.LATER: fcm.too_many("7"),
    Answer.IS_DOWN: fcm.UNAVAILABLE,
    Answer.BLOCKS_US: fcm.OTHER_PROJECTS_TOKEN,
    Answer.SAYS_GARBAGE: fcm.Say(200, b"\x00\xff nonsense"),
    Answer.HANGS_UP: fcm.Drop(),
    Answer.IS_SILENT: fcm.Hang(),
}
OF_PUSH_SERVICES: dict[Answer, Act | None] = {
    Answer.TAKES: None,
    Answer.REFUSES: fcm.Say(400, b'{"reason":"BadWebPushTopic"}'),
    Answer.IS_DEAD: webpush.GONE,
    Answer.LATER: webpush.THROTTLED,
    Answer.IS_DOWN: fcm.Say(503),
    Answer.BLOCKS_US: webpush.WRONG_KEY,
    Answer.SAYS_GARBAGE: fcm.Say(200, b"<html>nonsense"),
    Answer.HANGS_UP: fcm.Drop(),
    Answer.IS_SILENT: fcm.Hang(),
}
