"""Markdown to HTML for mail, and to the plain text that goes beside it, from one tree."""

from collections.abc import Iterator, Sequence
from urllib.parse import quote

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from shared.rendering.kinds import BREAK, unescape_code
from shared.rendering.plain import write_plain

_PARSER = MarkdownIt("commonmark", {"html": False, "breaks": False}).enable("table")
TABLE_CLASS = "rows"
"""What tells a table of figures from those that a tenant's own HTML is laid out with."""

_STYLED = {"style", "align", "class"}
_TAGS = frozenset(
    (
        *("a", "abbr", "b", "blockquote", "br", "caption", "code", "del", "div", "em", "h1", "h2", "h3", "h4"),
        *("h5", "h6", "hr", "i", "img", "ins", "li", "ol", "p", "pre", "s", "small", "span", "strong", "sub"),
        *("sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul"),
    )
)
_ATTRIBUTES = {
    "*": _STYLED,
    "a": {"href", "title"},
    "img": {"src", "alt", "title", "width", "height"},
    "ol": {"start"},
    "table": {"width", "cellpadding", "cellspacing", "border", "role", "bgcolor"},
    "td": {"colspan", "rowspan", "width", "valign", "bgcolor"},
    "th": {"colspan", "rowspan", "width", "valign", "bgcolor"},
}
_SCHEMES = {"https", "http", "mailto", "tel"}


class Markdown:
    """One parsed piece of Markdown; links that begin with ``/`` lead to ``website``."""

    def __init__(self, source: str, website: str | None) -> None:
        self._tokens = _PARSER.parse(source)
        _mend(self._tokens, website)

    def html(self) -> str:
        """The HTML, cleaned: no raw HTML of the source survives, no scheme but the harmless ones."""
        return clean_html(_PARSER.renderer.render(self._tokens, _PARSER.options, {}))

    def text(self) -> str:
        """The plain text: links as ``words (address)``, lists with marks, blank lines between blocks."""
        return write_plain(SyntaxTreeNode(self._tokens))


def clean_html(html: str) -> str:
    """``html`` reduced to what a mail may contain."""
    return nh3.clean(
        html,
        tags=set(_TAGS),
        attributes={tag: set(names) for tag, names in _ATTRIBUTES.items()},
        url_schemes=set(_SCHEMES),
        link_rel=None,
    )


def _mend(tokens: Sequence[Token], website: str | None) -> None:
    for token in tokens:
        if token.type == "table_open":
            token.attrSet("class", TABLE_CLASS)
        if token.type in ("code_inline", "fence", "code_block"):
            token.content = unescape_code(token.content)
        for name, value in token.attrs.items():
            if isinstance(value, str):
                token.attrSet(name, value.replace(BREAK, " ").replace(quote(BREAK), ""))
        href = token.attrGet("href")
        if token.type == "link_open" and isinstance(href, str) and href.startswith("/") and website:
            token.attrSet("href", website.rstrip("/") + href)
        if token.children:
            token.children = [piece for child in token.children for piece in _broken(child)]
            _mend(token.children, website)


def _broken(token: Token) -> Iterator[Token]:
    """``token``, in pieces where it is text that has breaks in it."""
    if token.type != "text" or BREAK not in token.content:
        yield token
        return
    for number, line in enumerate(token.content.split(BREAK)):
        if number > 0:
            yield Token("hardbreak", "br", 0)
        yield Token("text", "", 0, content=line)
