"""The shipped mails in a real browser: nothing is wider than the phone, and the button is as wide as it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.chromium import Chromium
from shared.content import Link
from shared.rendering.layout import Frame, lay_out
from shared.rendering.markdown import Markdown
from tests.fakes.chromium import Page, chromium
from tests.looks import LOADED, as_sent, shipped_mails

PHONE = 390
LONG = "https://campus.example/" + "a" * 300
HARD = f"""{LONG}

| `{"b" * 200}`

    {"code " * 60}

![](https://campus.example/logo.png) {"W" * 150}
"""


@pytest.fixture(scope="module")
async def page(browser: Chromium) -> AsyncIterator[Page]:
    async with chromium(browser) as page:
        yield page


def written(file: Path, html: str) -> str:
    file.write_text(html, "utf-8")
    return file.as_uri()


async def shown(page: Page, url: str, width: int) -> None:
    await page.open(url, width)
    await page.until(LOADED % url)


@pytest.mark.parametrize("width", [PHONE, 1000])
async def test_no_shipped_mail_is_wider_than_the_window(page: Page, tmp_path: Path, width: int) -> None:
    for name, mail in shipped_mails():
        await shown(page, written(tmp_path / f"{name}.html", as_sent(mail)[1]), width)
        assert await page.run("document.documentElement.scrollWidth") <= width, name


async def test_long_words_break_and_the_button_can_be_hit_with_a_thumb(page: Page, tmp_path: Path) -> None:
    frame = Frame("en", "s", Markdown(HARD, None).html(), "Sender", "W" * 80, link=Link(LONG, "Open " + "x" * 60))
    await shown(page, written(tmp_path / "hard.html", lay_out(frame)), PHONE)
    assert await page.run("document.documentElement.scrollWidth") <= PHONE
    button = await page.run(
        "(({width, height}) => [width, height])(document.querySelector('.button a').getBoundingClientRect())"
    )
    assert button[0] > PHONE * 0.8 and button[1] >= 44
