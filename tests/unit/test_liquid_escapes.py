"""Values in templates, hostile ones, for each kind of output."""

from datetime import UTC
from html.parser import HTMLParser
from urllib.parse import unquote

import msgspec
import pytest
from babel import Locale

from shared.rendering.bounds import Budget, Voice
from shared.rendering.kinds import Kind
from shared.rendering.liquid import TemplateMistakes, render
from shared.rendering.markdown import Markdown

HOSTILE = [
    "Tom & Jerry",
    "<script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "![x](https://tracker.example/p.png)",
    "<https://evil.example>",
    "a\n\n# Heading\n\n- item\n\n    code\n\n> quote",
    "**bold** _it_ `code` ~~x~~ &amp; &#60;",
    "1. one\n2) two\n+ three\n===\n---",
    "[ref]: https://evil.example\n[ref]",
    "\\[x](https://evil.example)",
    "\"'><img src=x onerror=alert(1)>",
]


def write(source: str, kind: Kind, value: object) -> str:
    voice = Voice(Locale("en"), UTC)
    return render(source, kind, "test", {"payload": {"x": value}}, voice, Budget())


class Parsed(HTMLParser):
    """The tags and the text of some HTML."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("value", HOSTILE)
def test_text_stands_as_it_is(value: str) -> None:
    assert write("Booked: {{ payload.x }}", Kind.TEXT, value) == f"Booked: {value}"


@pytest.mark.parametrize("value", HOSTILE)
def test_html_shows_the_value_and_makes_no_tag_of_it(value: str) -> None:
    parsed = Parsed(write("<p>{{ payload.x }}</p>", Kind.HTML, value))
    assert parsed.tags == ["p"]
    assert parsed.text == value


def test_html_value_cannot_leave_an_attribute() -> None:
    parsed = Parsed(write('<a title="{{ payload.x }}">a</a>', Kind.HTML, '"><script>'))
    assert parsed.tags == ["a"]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize(
    "around",
    [
        *("Note: {}", "{}", "- {}", "> {}", "**{}**", "[{}](https://ok.example)", "# {}", "{}\n---\n"),
        "| a | b |\n|---|---|\n| {} | x |\n| y | z |\n",
    ],
)
def test_markdown_value_is_text_and_never_markup(value: str, around: str) -> None:
    allowed = Parsed(Markdown(around.format("plain"), None).html()).tags
    html = Markdown(write(around.format("{{ payload.x }}"), Kind.MARKDOWN, value), None).html()
    parsed = Parsed(html)
    assert [tag for tag in parsed.tags if tag != "br"] == allowed
    assert "".join(value.split()) in "".join(parsed.text.split())


@pytest.mark.parametrize("value", HOSTILE)
def test_markdown_value_is_the_same_in_the_plain_text(value: str) -> None:
    text = Markdown(write("{{ payload.x }}", Kind.MARKDOWN, value), None).text()
    assert text.split() == value.split()


def test_a_value_of_two_lines_stays_in_its_cell_its_heading_and_its_code() -> None:
    table = Markdown(write("| a |\n|---|\n| {{ payload.x }} |\n", Kind.MARKDOWN, "one\r\ntwo"), None)
    assert "<td>one<br>\ntwo</td>" in table.html()
    assert table.text().splitlines()[-1] == "one two"
    assert "<h1>one<br>\ntwo</h1>" in Markdown(write("# {{ payload.x }}", Kind.MARKDOWN, "one\ntwo"), None).html()
    assert Markdown(write("```\n{{ payload.x }}\n```", Kind.MARKDOWN, "one\ntwo"), None).text() == "one\ntwo"
    link = Markdown(write("[open]({{ payload.x }} 'a')", Kind.MARKDOWN, "https://a.example/b\nc\ufdd0"), None)
    assert link.html() == '<p><a href="https://a.example/bc" title="a">open</a></p>\n'


@pytest.mark.parametrize("value", ["AB-12_*", "a`b", "<b>"])
def test_markdown_code_shows_the_value_without_the_escapes(value: str) -> None:
    source = write("Your code:\n\n    {{ payload.x }}\n", Kind.MARKDOWN, value)
    assert Markdown(source, None).text() == f"Your code:\n\n{value}"
    assert Parsed(Markdown(source, None).html()).text.strip().endswith(value)


def test_markdown_value_as_a_link_target_keeps_to_harmless_schemes() -> None:
    source = "[open]({{ payload.x }})"
    good = Markdown(write(source, Kind.MARKDOWN, "https://a.example/b_c?d=(e)&f=g"), None).html()
    assert '<a href="https://a.example/b_c?d=(e)&amp;f=g">open</a>' in good
    for scheme in ("javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "file:///x"):
        assert "<a" not in Markdown(write(source, Kind.MARKDOWN, scheme), None).html()


@pytest.mark.parametrize("value", ["a/../b", "x?y=z#w", "a b", "ünï", "%2e%2e", "//evil.example", "a\\b"])
def test_url_value_is_one_segment(value: str) -> None:
    written = write("/bookings/{{ payload.x }}/end", Kind.URL, value)
    assert written.count("/") == 3
    assert "?" not in written and "#" not in written and "\\" not in written
    assert unquote(written.split("/")[2]) == value


def test_url_that_begins_with_a_value_is_that_url() -> None:
    assert write("{{ payload.x }}", Kind.URL, "https://a.example/b?c=d#e") == "https://a.example/b?c=d#e"
    assert write("{{ payload.x }}", Kind.URL, 'https://a.example/"<>') == "https://a.example/%22%3C%3E"


@pytest.mark.parametrize("value", [*HOSTILE, 'quote " backslash \\ newline \n tab \t', "</script>"])
def test_json_value_stays_inside_its_string(value: str) -> None:
    written = write('{"a": "{{ payload.x }}"}', Kind.JSON, value)
    assert msgspec.json.decode(written) == {"a": value}
    assert "<" not in written


def test_captured_output_is_escaped_once_and_a_filtered_capture_again() -> None:
    source = "{% capture c %}<b>{{ payload.x }}</b>{% endcapture %}{{ c }}"
    assert write(source, Kind.HTML, "<i>") == "<b>&lt;i&gt;</b>"
    assert "<b>" not in write(source.replace("{{ c }}", "{{ c | append: '' }}"), Kind.HTML, "<i>")


def test_a_value_assigned_or_looped_over_is_escaped_all_the_same() -> None:
    assert write("{% assign y = payload.x %}{{ y }}", Kind.HTML, "<") == "&lt;"
    assert write("{% for y in payload.x %}{{ y }}{% endfor %}", Kind.HTML, ["<", ">"]) == "&lt;&gt;"
    assert write("{{ payload.x }}", Kind.HTML, ["<", {"a": "<"}]).count("<") == 0


@pytest.mark.parametrize("tag", ["echo payload.x", "cycle payload.x", "liquid echo payload.x", "include 'x'"])
def test_tags_that_print_past_the_escaping_are_unknown(tag: str) -> None:
    with pytest.raises(TemplateMistakes, match="unknown tag"):
        write(f"{{% {tag} %}}", Kind.HTML, "<")
