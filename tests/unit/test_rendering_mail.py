"""Mail content: HTML and plain text from one source, in the layout."""

from html.parser import HTMLParser

import pytest

from shared.content import UNSUBSCRIBE_PLACE, Link
from shared.errors import RenderError
from shared.rendering.layout import Frame, lay_out
from shared.rendering.links import absolute_link, app_link
from shared.rendering.markdown import Markdown, clean_html
from shared.rendering.plain import WIDEST_COLUMN
from shared.rendering.words import open_word, unsubscribe_word

SOURCE = """# Title

Hello **Bob**, see [your booking](/bookings/1)
or write to <mailto:help@campus.example>.

- one
- two
  1. deep
  2. deeper

3. three
4. four

> quoted
> words

    code  here

---
Last\\
line ![a logo](https://campus.example/logo.png)
"""

TEXT = """Title

Hello Bob, see your booking (https://campus.example/bookings/1) or write to mailto:help@campus.example.

- one
- two
  1. deep
  2. deeper

3. three
4. four

> quoted words

code  here

--------------------

Last
line a logo"""


def test_plain_text_is_made_from_the_same_markdown() -> None:
    assert Markdown(SOURCE, "https://campus.example").text() == TEXT


def test_html_is_made_from_markdown_without_raw_html() -> None:
    html = Markdown(SOURCE + "\n<script>x</script> <b>raw</b>\n", "https://campus.example").html()
    assert '<a href="https://campus.example/bookings/1">your booking</a>' in html
    assert '<ol start="3">' in html
    assert "<script" not in html and "<b>" not in html


def test_a_table_stands_in_columns_in_both_parts() -> None:
    table = Markdown("| Paid by | Sum |\n|---|---:|\n| **Ada** \\| Bob | €312.50 |\n| Eve |\n", None)
    assert '<table class="rows">' in table.html() and '<td style="text-align:right">€312.50</td>' in table.html()
    assert table.text().splitlines() == ["Paid by        Sum", "---------  -------", "Ada | Bob  €312.50", "Eve"]


def test_a_long_cell_of_a_table_makes_only_its_own_line_long() -> None:
    rows = ["x" * 1000, *["short"] * 50]
    lines = (
        Markdown("| Item | Sum |\n|---|---|\n" + "".join(f"| {row} | 1 |\n" for row in rows), None).text().split("\n")
    )
    assert lines[2] == f"{rows[0]}  1"
    assert {len(line) for line in lines[3:]} == {WIDEST_COLUMN + len("  1")}


@pytest.mark.parametrize(
    "hostile",
    [
        '<a href="javascript:alert(1)">x</a>',
        '<img src="data:image/png;base64,xx">',
        '<p onclick="x()">x</p>',
        "<iframe src='https://x.example'></iframe>",
        "<form action='https://x.example'><input></form>",
        "<script>alert(1)</script>",
    ],
)
def test_given_html_is_cleaned(hostile: str) -> None:
    cleaned = clean_html(hostile)
    for word in ("javascript:", "data:", "onclick", "<iframe", "<form", "<script"):
        assert word not in cleaned


def test_given_html_keeps_what_mail_is_made_of() -> None:
    cell = '<td style="color:red" align="center">x</td>'
    html = f'<table width="100%" role="presentation"><tbody><tr>{cell}</tr></tbody></table>'
    assert clean_html(html) == html


class Text(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_layout_escapes_everything_but_its_content() -> None:
    html = lay_out(
        Frame(
            locale="de",
            subject="A & B",
            content="<p>content</p>",
            sender_name="Tom & <Jerry>",
            title="<b>title</b>",
            preheader="pre & header",
            link=Link("https://campus.example/a?b=1&c=2", '"label"'),
            website="https://campus.example",
        )
    )
    assert "<p>content</p>" in html
    assert "<title>A &amp; B</title>" in html
    assert "&lt;b&gt;title&lt;/b&gt;" in html
    assert "Tom &amp; &lt;Jerry&gt;" in html
    assert "pre &amp; header" in html
    assert 'href="https://campus.example/a?b=1&amp;c=2"' in html
    assert "&quot;label&quot;" in html


def test_the_layout_is_a_whole_document_that_fits_a_phone() -> None:
    html = lay_out(Frame("ar", "s", "<p>x</p>", "Sender"))
    tags = Text(html).found
    assert ("html", {"lang": "ar", "dir": "rtl"}) in tags
    assert any(tag == "meta" and attrs.get("name") == "viewport" for tag, attrs in tags)
    assert "<h1" not in html and "<a href" not in html
    fixed = [attrs for _tag, attrs in tags if (attrs.get("width") or "").isdigit()]
    assert fixed == []


def test_the_layout_has_one_place_for_the_unsubscribe_link() -> None:
    assert lay_out(Frame("en", "s", "<p>x</p>", "Sender")).count(UNSUBSCRIBE_PLACE) == 1


def test_words_of_our_own_are_in_the_language_of_the_mail() -> None:
    assert [open_word(locale) for locale in ("de-AT", "pt_BR", "tlh")] == ["Öffnen", "Abrir", "Open"]
    assert [unsubscribe_word(locale) for locale in ("de", "FR", "")] == ["Abbestellen", "Se désabonner", "Unsubscribe"]


@pytest.mark.parametrize(
    ("written", "absolute"),
    [
        ("/a/b", "https://campus.example/a/b"),
        ("/", "https://campus.example/"),
        ("https://other.example/x?y=..", "https://other.example/x?y=.."),
        (" https://other.example ", "https://other.example"),
    ],
)
def test_links_become_absolute(written: str, absolute: str) -> None:
    assert absolute_link(written, "https://campus.example/", "link.url") == absolute


@pytest.mark.parametrize(
    "written",
    [
        *("http://campus.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "campus://x", ""),
        *("bookings/1", "https://", "https://a b", "/a/../b", "/a/%2E%2e/b", "/..", "https://user@evil.example"),
        *("/" + "a" * 3000, "/a\nb", "data:text/html,x"),
    ],
)
def test_links_that_lead_elsewhere_are_refused(written: str) -> None:
    with pytest.raises(RenderError, match=r"link\.url"):
        absolute_link(written, "https://campus.example", "link.url")


def test_a_relative_link_needs_a_website() -> None:
    with pytest.raises(RenderError, match="no website"):
        absolute_link("/a", None, "link.url")


def test_apps_open_their_own_schemes_and_https_only() -> None:
    assert app_link("campus://bookings/1", ["campus"], "link.app") == "campus://bookings/1"
    assert app_link("https://campus.example/1", ["campus"], "link.app") == "https://campus.example/1"
    for written in ("javascript:alert(1)", "other://x", "http://x.example", "/bookings", "campus://a/../b"):
        with pytest.raises(RenderError, match=r"link\.app"):
            app_link(written, ["campus"], "link.app")
