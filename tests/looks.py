"""``python -m tests.looks FOLDER``: the shipped mails and the unsubscribe page, on a phone, on a desk and in the dark.

Writes each mail as HTML and plain text, and what a Chromium makes of it as PNG, for somebody to look at.
"""

import argparse
import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from uuid import uuid4

from deploy.chromium import find_or_fetch
from services.email.message import build_message
from services.email.unsubscribe_page import Button, View, show_page
from services.email.unsubscribe_words import ALL_WORDS
from shared.content import EmailContent
from shared.ids import ScopeId, TenantId, new_event_id
from shared.recipient import Recipient
from shared.rendering.decide import EventFacts, Planned, plan
from shared.tenant import Mode, ScopedTenant
from shared.tenantfile.check import check_file
from tests.fakes.chromium import Page, chromium
from tests.fakes.parcels import SENDER

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
LOOKS = ((390, "light"), (390, "dark"), (1000, "light"))
"""Widths and colour schemes."""
LOADED = "document.readyState === 'complete' && location.href === %r"


def shipped_mails() -> Iterator[tuple[str, EmailContent]]:
    """Every mail of the examples in every locale, under a name of its own."""
    now = datetime.now(UTC)
    for file in sorted(EXAMPLES.glob("*/*.yaml")):
        tenant = check_file(file).tenant
        for event_type in tenant.event_types.values():
            for locale in tenant.locales:
                recipient = event_type.to or Recipient("bob", "Bob", "bob@example.com", locale)
                event = EventFacts(
                    new_event_id(), event_type.id, recipient, event_type.example, now, now + timedelta(hours=24)
                )
                for entry in plan(ScopedTenant(ScopeId(1), TenantId(1), Mode.LIVE, 1, tenant), event):
                    if isinstance(entry, Planned) and isinstance(entry.content, EmailContent):
                        yield f"{tenant.key}-{event_type.id}-{locale}", entry.content


def as_sent(mail: EmailContent) -> tuple[str, str]:
    """The plain text and the HTML that go out, with the link that the mail would have."""
    link = None if mail.category is None or mail.critical else "https://waybill.example/unsubscribe/dG9rZW4"
    message = build_message(mail, SENDER, uuid4(), datetime.now(UTC), unsubscribe=link)
    parts = message_from_bytes(message.content, policy=default).iter_parts()
    text, html = (part.get_content() for part in parts)
    return text, html


def pages() -> Iterator[tuple[str, str]]:
    """The unsubscribe page in every language and state, as HTML under a name of its own."""
    for language, words in ALL_WORDS.items():
        for state, title, text, button in (
            ("ask", words.ask_title, words.ask, Button(words.stop, "wanted=no")),
            ("stopped", words.stopped_title, words.stopped, Button(words.resume, "wanted=again", quiet=True)),
            ("unknown", words.unknown_title, words.unknown, None),
        ):
            sender = "" if button is None else "CampusCritique"
            told = text.format(sender=sender, category="Reminders")
            yield f"unsubscribe-{language}-{state}", show_page(View(language, title, told, sender, button))


async def photograph(page: Page, file: Path, width: int, scheme: str) -> None:
    """The whole of the HTML in ``file`` as a PNG beside it, ``width`` wide, in a colour ``scheme``."""
    await page.open(file.as_uri(), width, height=200)
    await page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    await page.until(LOADED % file.as_uri())
    height = await page.run("document.documentElement.scrollHeight")
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    await page.call("Emulation.setDeviceMetricsOverride", **size)
    await page.photograph(file.with_name(f"{file.stem}-{width}-{scheme}.png"))


async def look(folder: Path) -> None:
    """Fill ``folder``."""
    browser = await asyncio.to_thread(find_or_fetch, ROOT / ".waybill")
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    async with chromium(browser) as page:
        for name, mail in shipped_mails():
            file = folder / f"{name}.html"
            text, html = as_sent(mail)
            await asyncio.to_thread(file.write_text, html, "utf-8")
            await asyncio.to_thread(file.with_suffix(".txt").write_text, f"{mail.subject}\n\n{text}", "utf-8")
            for width, scheme in LOOKS:
                await photograph(page, file, width, scheme)
        for name, html in pages():
            file = folder / f"{name}.html"
            await asyncio.to_thread(file.write_text, html, "utf-8")
            for width, scheme in LOOKS:
                await photograph(page, file, width, scheme)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    asyncio.run(look(parser.parse_args().folder.resolve()))
