"""A Markdown tree as plain text for mail."""

import textwrap
from collections.abc import Sequence

from markdown_it.tree import SyntaxTreeNode

_RULE = "-" * 20
WIDEST_COLUMN = 60
"""In characters. A cell may be longer and then juts out: were all others of its column filled up to it, one long value
among many rows would make a mail of hundreds of megabytes."""


def write_plain(root: SyntaxTreeNode) -> str:
    """The text of ``root``'s blocks, a blank line between them."""
    return _blocks(root.children)


def _blocks(nodes: Sequence[SyntaxTreeNode], between: str = "\n\n") -> str:
    return between.join(text for node in nodes if (text := _block(node)))


def _block(node: SyntaxTreeNode) -> str:
    match node.type:
        case "bullet_list":
            return _list(node, ["- "] * len(node.children))
        case "ordered_list":
            first = int(str(node.attrs.get("start", 1)))
            return _list(node, [f"{number}. " for number in range(first, first + len(node.children))])
        case "blockquote":
            return textwrap.indent(_blocks(node.children), "> ", lambda _line: True)
        case "fence" | "code_block":
            return node.content.rstrip("\n")
        case "hr":
            return _RULE
        case "table":
            return _table(node)
        case "inline":
            return "".join(_inline(child) for child in node.children).strip()
        case _:
            return _blocks(node.children)


def _list(node: SyntaxTreeNode, marks: Sequence[str]) -> str:
    # A list whose paragraphs are hidden was written without blank lines, and stays so.
    tight = all(child.hidden for item in node.children for child in item.children if child.type == "paragraph")
    between = "\n" if tight else "\n\n"
    items = []
    for mark, item in zip(marks, node.children, strict=True):
        text = textwrap.indent(_blocks(item.children, between), " " * len(mark))
        items.append(mark + text.lstrip())
    return between.join(items)


def _table(node: SyntaxTreeNode) -> str:
    """Columns side by side, two spaces between, a line of dashes under the heads; figures stand to the right."""
    rows = [row.children for part in node.children for row in part.children]
    texts = [[" ".join(_blocks(cell.children).split()) for cell in row] for row in rows]
    widths = [min(max(len(text) for text in column), WIDEST_COLUMN) for column in zip(*texts, strict=True)]
    to_the_right = ["right" in str(cell.attrs.get("style", "")) for cell in rows[0]]

    def line(row: Sequence[str]) -> str:
        cells = zip(row, widths, to_the_right, strict=True)
        return "  ".join(text.rjust(width) if right else text.ljust(width) for text, width, right in cells).rstrip()

    heads, *body = texts
    return "\n".join([line(heads), line(["-" * width for width in widths]), *map(line, body)])


def _inline(node: SyntaxTreeNode) -> str:
    match node.type:
        case "text" | "code_inline":
            return node.content
        case "softbreak":
            return " "
        case "hardbreak":
            return "\n"
        case "image":
            return "".join(_inline(child) for child in node.children)
        case "link":
            words = "".join(_inline(child) for child in node.children)
            address = str(node.attrs.get("href", ""))
            return words if words == address or address == f"mailto:{words}" else f"{words} ({address})"  # noqa: PLR1714 - two comparisons, each with its reason
        case _:
            return "".join(_inline(child) for child in node.children)
