"""What a fake SMTP server is told to do: at which stage it answers otherwise, stalls or hangs up."""

import asyncio
import json
from collections import defaultdict, deque
from dataclasses import dataclass
from pathlib import Path

STAGES = ("connect", "helo", "starttls", "auth", "mail", "rcpt", "data", "body", "eod", "rset", "quit")
"""Where the script may step in: ``connect`` is the banner, ``body`` the middle of the mail, ``eod`` the answer to
the final dot."""
WORDS = {"before-banner": ("connect", "stall"), "after-dot": ("eod", "stall")}
"""The two stalls that the crash tests need, by the name they have on the command line."""


@dataclass(frozen=True)
class Reply:
    """Answer with these words instead of the usual ones; each line of ``text`` is one of the answer."""

    code: int
    text: str

    def lines(self) -> bytes:
        """The answer as it goes over the wire."""
        texts = self.text.split("\n")
        marks = ["-"] * (len(texts) - 1) + [" "]
        return b"".join(f"{self.code}{mark}{text}\r\n".encode() for mark, text in zip(marks, texts, strict=True))


@dataclass(frozen=True)
class Raw:
    """Send these very bytes as the answer, whatever they are."""

    content: bytes


@dataclass(frozen=True)
class Stall:
    """Say nothing until the other side has gone away."""


@dataclass(frozen=True)
class Drop:
    """Close the connection without an answer."""


@dataclass(frozen=True)
class Wait:
    """Go the usual way once ``until`` is set."""

    until: asyncio.Event


Act = Reply | Raw | Stall | Drop | Wait


class Script:
    """The acts of one server, by stage; what is not in it goes the usual way."""

    def __init__(self, control: Path | None = None) -> None:
        self._control = control
        self._once: dict[str, deque[Act | None]] = defaultdict(deque)
        self._always: dict[str, Act] = {}

    def once(self, stage: str, *acts: Act | None) -> None:
        """Do each of ``acts`` once, in order, at the next visits to ``stage``; None is the usual answer."""
        self._once[_known(stage)].extend(acts)

    def always(self, stage: str, act: Act | None) -> None:
        """Do ``act`` at every visit to ``stage`` that nothing else claims; None ends it."""
        if act is None:
            self._always.pop(_known(stage), None)
        else:
            self._always[_known(stage)] = act

    def forget(self) -> None:
        """Go the usual way at every stage."""
        self._once.clear()
        self._always.clear()

    def act(self, stage: str) -> Act | None:
        """What to do now at ``stage``; the control file, where there is one, comes before ``always``."""
        if self._once[stage]:
            return self._once[stage].popleft()
        told = self._told().get(stage)
        if told == "usual":
            return None
        return parse_act(told) if told else self._always.get(stage)

    def _told(self) -> dict[str, str]:
        if self._control is None or not self._control.exists():
            return {}
        told: dict[str, str] = json.loads(self._control.read_text() or "{}")
        return told


def parse_act(text: str) -> Act:
    """The act written as ``stall``, ``drop`` or ``451 4.7.1 words``; a control file may also say ``usual``."""
    if text == "stall":
        return Stall()
    if text == "drop":
        return Drop()
    code, _, words = text.partition(" ")
    return Reply(int(code), words)


def _known(stage: str) -> str:
    if stage not in STAGES:
        raise ValueError(f"no stage {stage!r}: {', '.join(STAGES)}")
    return stage
