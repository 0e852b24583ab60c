"""The unsubscribe page in a real browser: it fits a phone, and its button is hit with a thumb or with the keyboard."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.chromium import Chromium
from services.email.unsubscribe_page import Button, View, show_page
from tests.browser.test_mails import PHONE, shown, written
from tests.fakes.chromium import Page, chromium
from tests.looks import pages


@pytest.fixture(scope="module")
async def page(browser: Chromium) -> AsyncIterator[Page]:
    async with chromium(browser) as page:
        yield page


async def test_no_page_is_wider_than_the_phone(page: Page, tmp_path: Path) -> None:
    longest = max((html for _, html in pages()), key=len)
    endless = show_page(View("en", "W" * 80, "x" * 300, "S" * 120, Button("B" * 80, "a=b")))
    for name, html in (("longest", longest), ("endless", endless)):
        await shown(page, written(tmp_path / f"{name}.html", html), PHONE)
        assert await page.run("document.documentElement.scrollWidth") <= PHONE, name


async def test_the_button_is_reached_by_thumb_and_by_keyboard(page: Page, tmp_path: Path) -> None:
    html = dict(pages())["unsubscribe-de-ask"]
    await shown(page, written(tmp_path / "ask.html", html), PHONE)
    size = await page.run(
        "(({width, height}) => [width, height])(document.querySelector('button').getBoundingClientRect())"
    )
    assert size[0] > PHONE * 0.7 and size[1] >= 44
    for kind in ("keyDown", "keyUp"):
        await page.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert await page.run("document.activeElement.textContent") == "Abbestellen"
    assert await page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert await page.run("[document.documentElement.lang, document.scripts.length].join()") == "de,0"
