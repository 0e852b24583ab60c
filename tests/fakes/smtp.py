"""A scriptable SMTP server on loopback that records every mail it took; also a process of its own.

``python -m tests.fakes.smtp --port 0 --log sink.jsonl --stall after-dot --control control.json`` prints the port,
writes one JSON line per connection and per mail, and reads the control file (``{"eod": "stall"}``) at every stage.
"""

import argparse
import asyncio
import json
import ssl
from base64 import b64decode
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.parser import BytesHeaderParser
from email.policy import default
from pathlib import Path
from typing import Any, TextIO, cast

from tests.fakes.smtp_script import WORDS, Drop, Raw, Reply, Script, Stall, Wait, parse_act

LONGEST_WAIT = 20.0
_HEADERS = BytesHeaderParser()
LINE_LIMIT = 16 * 1024 * 1024


@dataclass(frozen=True)
class Mail:
    """One mail that the server took to the final dot, whether or not it then said so."""

    envelope_from: str
    envelope_to: tuple[str, ...]
    content: bytes
    connection: int
    encrypted: bool

    @property
    def message(self) -> EmailMessage:
        """The mail, parsed."""
        return message_from_bytes(self.content, policy=default)

    @property
    def message_id(self) -> str:
        """Its Message-ID, '' when it has none."""
        return str(_HEADERS.parsebytes(self.content, headersonly=True)["Message-ID"] or "")


class _Gone(Exception):
    """The dialogue is over."""


@dataclass
class SmtpSink:
    """The server: what it shall do (``script``) and what it has seen.

    ``starttls`` and ``implicit`` are TLS contexts; ``login`` is the user and password it asks for.
    """

    starttls: ssl.SSLContext | None = None
    implicit: ssl.SSLContext | None = None
    login: tuple[str, str] | None = None
    size_limit: int | None = None
    extensions: tuple[str, ...] = ("8BITMIME", "ENHANCEDSTATUSCODES")
    log: Path | None = None
    script: Script = field(default_factory=Script)
    mails: list[Mail] = field(default_factory=list)
    commands: list[tuple[int, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    connection_count: int = 0
    most_at_once: int = 0
    port: int = 0
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _server: asyncio.Server | None = None
    _log: TextIO | None = None

    async def start(self, port: int = 0) -> "SmtpSink":
        """Listen on ``port`` of 127.0.0.1 (0: a free one); ``port`` then says which."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", port or self.port, ssl=self.implicit, limit=LINE_LIMIT
        )
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def close(self) -> None:
        """Stop listening and cut every connection."""
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._log is not None:
            self._log.close()
            self._log = None

    def cut(self) -> None:
        """Cut every open connection."""
        for writer in tuple(self._open):
            writer.transport.abort()

    async def wait_until(self, condition: Any, seconds: float = LONGEST_WAIT) -> None:
        """Return when ``condition()`` holds; it is asked after everything the server sees."""
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(condition)

    async def wait_for_mails(self, count: int, seconds: float = LONGEST_WAIT) -> list[Mail]:
        """The mails, as soon as there are ``count``."""
        await self.wait_until(lambda: len(self.mails) >= count, seconds)
        return self.mails

    @property
    def open_count(self) -> int:
        """The connections that are open now."""
        return len(self._open)

    def verbs(self, connection: int) -> list[str]:
        """The commands that came over ``connection`` (1, 2, …), in order."""
        return [verb for number, verb in self.commands if number == connection]

    async def record(self, kind: str, fields: dict[str, Any]) -> None:
        """Write a line to the log, and wake those who wait."""
        if self.log is not None:
            if self._log is None:
                self._log = self.log.open("a", buffering=1)
            self._log.write(json.dumps({"kind": kind, **fields}) + "\n")
        async with self._changed:
            self._changed.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        self._open.add(writer)
        self.most_at_once = max(self.most_at_once, len(self._open))
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._tasks.add(task)
        dialogue = _Dialogue(self, reader, writer, self.connection_count)
        try:
            await dialogue.run()
        except (_Gone, OSError, EOFError, ssl.SSLError):
            pass
        finally:
            self._open.discard(writer)
            self._tasks.discard(task)
            writer.transport.abort()
            await self.record("closed", {"connection": dialogue.number})


class _Dialogue:
    """One connection."""

    def __init__(self, sink: SmtpSink, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self.sink, self.reader, self.writer, self.number = sink, reader, writer, number
        self.encrypted = sink.implicit is not None
        self.envelope_from = ""
        self.envelope_to: list[str] = []

    async def run(self) -> None:
        await self.sink.record("connected", {"connection": self.number})
        await self.answer("connect", Reply(220, "sink.test ESMTP"))
        while True:
            line = (await self._line()).decode("ascii", "backslashreplace").strip()
            verb, _, rest = line.partition(" ")
            self.sink.lines.append(line)
            self.sink.commands.append((self.number, verb.upper()))
            await self.sink.record("command", {"connection": self.number, "verb": verb.upper()})
            await self._obey(verb.upper(), rest)

    async def _obey(self, verb: str, rest: str) -> None:  # noqa: C901 - one case a command
        match verb:
            case "EHLO" | "HELO":
                await self.answer("helo", Reply(250, "\n".join(["sink.test", *self._extensions()])))
            case "STARTTLS" if self.sink.starttls is not None:
                await self.answer("starttls", Reply(220, "2.0.0 go ahead"))
                await self.writer.start_tls(self.sink.starttls)
                self.encrypted = True
            case "AUTH":
                await self._auth(rest)
            case "MAIL":
                self.envelope_from, self.envelope_to = _path(rest), []
                await self.answer("mail", Reply(250, "2.1.0 ok"))
            case "RCPT":
                if await self.answer("rcpt", Reply(250, "2.1.5 ok")):
                    self.envelope_to.append(_path(rest))
            case "DATA":
                if await self.answer("data", Reply(354, "go ahead")):
                    await self._take_mail()
            case "RSET":
                await self.answer("rset", Reply(250, "2.0.0 ok"))
            case "QUIT":
                await self.answer("quit", Reply(221, "2.0.0 bye"))
                raise _Gone
            case _:
                await self._write(Reply(502, "5.5.1 no such command"))

    def _extensions(self) -> list[str]:
        offered = list(self.sink.extensions)
        if self.sink.starttls is not None and not self.encrypted:
            offered.append("STARTTLS")
        if self.sink.login is not None:
            offered.append("AUTH LOGIN PLAIN")
        if self.sink.size_limit is not None:
            offered.append(f"SIZE {self.sink.size_limit}")
        return offered

    async def _auth(self, rest: str) -> None:
        words = b64decode(rest.partition(" ")[2] + "==").decode().split("\0")[1:]
        good = tuple(words) == self.sink.login
        usual = Reply(235, "2.7.0 welcome") if good else Reply(535, "5.7.8 credentials invalid")
        await self.answer("auth", usual)

    async def _take_mail(self) -> None:
        if (act := await self._told("body")) is not None:
            await self._line()
            await self._do(act)
            await self.reader.read()
            raise _Gone
        lines: list[bytes] = []
        while (line := await self._line()) != b".\r\n":
            lines.append(line[1:] if line.startswith(b".") else line)
        act = await self._told("eod")
        if not isinstance(act, Reply) or act.code < 400:
            await self._keep(b"".join(lines))
        await self._do(act or Reply(250, f"2.0.0 queued as {len(self.sink.mails)}"))

    async def _keep(self, content: bytes) -> None:
        mail = Mail(self.envelope_from, tuple(self.envelope_to), content, self.number, self.encrypted)
        self.sink.mails.append(mail)
        fields = {"connection": self.number, "message_id": mail.message_id, "from": mail.envelope_from}
        await self.sink.record("mail", {**fields, "to": list(mail.envelope_to)})

    async def answer(self, stage: str, usual: Reply) -> bool:
        """Whether the client may go on after what was answered at ``stage``."""
        return await self._do(await self._told(stage) or usual)

    async def _told(self, stage: str) -> Reply | Raw | Stall | Drop | None:
        """What to do now at ``stage`` instead of the usual."""
        act = self.sink.script.act(stage)
        if isinstance(act, Wait):
            await act.until.wait()
            return None
        return act

    async def _do(self, act: Reply | Raw | Stall | Drop) -> bool:
        match act:
            case Stall():
                await self._line()
                raise _Gone
            case Drop():
                raise _Gone
            case Raw(content):
                self.writer.write(content)
                await self.writer.drain()
            case Reply():
                await self._write(act)
                if act.code == 421:
                    raise _Gone
        return isinstance(act, Reply) and act.code < 400

    async def _write(self, reply: Reply) -> None:
        self.writer.write(reply.lines())
        await self.writer.drain()

    async def _line(self) -> bytes:
        line = await self.reader.readline()
        if not line.endswith(b"\n"):
            raise _Gone
        return line


def _path(argument: str) -> str:
    return argument.partition("<")[2].partition(">")[0]


async def _run_alone(arguments: argparse.Namespace) -> None:
    sink = SmtpSink(log=arguments.log, script=Script(arguments.control))
    if arguments.stall:
        stage, act = WORDS[arguments.stall]
        sink.script.always(stage, parse_act(act))
    await sink.start(arguments.port)
    print(sink.port, flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Run a sink as a process of its own until it is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--control", type=Path)
    parser.add_argument("--stall", choices=sorted(WORDS))
    asyncio.run(_run_alone(parser.parse_args()))


if __name__ == "__main__":
    main()
