"""`waybill bounces read`: mails that came back, from the mailbox or the file they are in."""

import asyncio
import mailbox
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from services.cli.beside import read_settings
from services.cli.exits import show
from services.cli.store import open_store
from services.email.intake import Arrival, Taken
from services.email.receiving import Receiving
from services.email.returnpath import PURPOSE, ReturnPaths
from shared import logs
from shared.sealing import Sealer
from shared.settings import Settings, listed
from shared.store.receipts import ReceiptSource

STDIN = Path("-")
MEANINGS = {
    Taken.NEW: "new",
    Taken.KNOWN: "known before",
    Taken.TOO_MANY: "one too many about one mail",
    Taken.NOT_A_REPORT: "no bounces and no complaints",
    Taken.NO_JOB: "about no mail of ours",
    Taken.FORGED: "forged",
    Taken.EXPIRED: "too late",
}


class BounceSettings(Settings):
    """Where Postgres is, and what return paths are made of."""

    database_url: str = listed("DATABASE_URL")
    master_keys: tuple[bytes, ...] = listed("MASTER_KEYS")
    bounce_domain: str | None = listed("BOUNCE_DOMAIN", optional=True)


@dataclass(frozen=True, slots=True)
class Mails:
    """Mails to read, one after the other, and how many."""

    count: int
    raw: Iterator[bytes]


def read(source: Path, *, as_json: bool) -> None:
    """Take in every mail in ``source``; one that was taken in before changes nothing."""
    settings = read_settings(BounceSettings)
    logs.configure(level="error")
    mails = find_mails(source)
    paths = ReturnPaths(Sealer(settings.master_keys).signing_keys(PURPOSE), settings.bounce_domain)

    async def work() -> Counter[Taken]:
        found: Counter[Taken] = Counter()
        async with open_store(settings.database_url) as database:
            receiving = Receiving(database, paths)
            for raw in _shown(mails):
                found[await receiving.take(Arrival(raw, ReceiptSource.FILE))] += 1
        return found

    found = asyncio.run(work())
    fields = {"read": found.total(), **{taken.value: found[taken] for taken in Taken}}
    parts = [f"{found[taken]} {meaning}" for taken, meaning in MEANINGS.items() if found[taken]]
    show(fields, as_json, f"Read {found.total()}: {', '.join(parts) or 'there was nothing'}.")


def find_mails(source: Path) -> Mails:
    """The mails in a maildir, a folder of files, an mbox, or a file with one; ``-``: standard input. Raises OSError."""
    if source == STDIN:
        return Mails(1, iter([sys.stdin.buffer.read()]))
    if source.is_dir():
        folders = [source / "cur", source / "new"] if (source / "cur").is_dir() else [source]
        files = sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir() if path.is_file())
        return Mails(len(files), (path.read_bytes() for path in files))
    with source.open("rb") as file:
        is_mbox = file.read(5) == b"From "
    if not is_mbox:
        return Mails(1, iter([source.read_bytes()]))
    box = mailbox.mbox(source, create=False)
    return Mails(len(box), _all_of(box))


def _all_of(box: mailbox.mbox) -> Iterator[bytes]:
    with closing(box):
        yield from (box.get_bytes(key) for key in box.iterkeys())


def _shown(mails: Mails) -> Iterator[bytes]:
    """The mails, with a bar on standard error for whoever watches."""
    if not sys.stderr.isatty():
        yield from mails.raw
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(mails.raw, "Reading", total=mails.count, console=Console(stderr=True), transient=True)
