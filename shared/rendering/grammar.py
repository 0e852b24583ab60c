"""The Liquid that tenants write: the allowed tags, with nodes that count steps and escape by kind.

``echo``, ``cycle``, ``liquid`` and ``include`` are left out: they print past the escaping or reach for other
templates. ``tablerow`` prints HTML of its own, ``increment`` shares names with values. ``render`` is gone before a
template comes here: partials are put in when the tenant file is read.
"""

from typing import ClassVar, TextIO

from liquid import Environment, Mode, RenderContext
from liquid.ast import Node
from liquid.builtin.content import ContentNode, Literal
from liquid.builtin.illegal import Illegal
from liquid.builtin.output import Output, OutputNode
from liquid.builtin.tags.assign_tag import AssignNode, AssignTag
from liquid.builtin.tags.capture_tag import CaptureNode, CaptureTag
from liquid.builtin.tags.case_tag import CaseNode, CaseTag
from liquid.builtin.tags.comment_tag import CommentNode, CommentTag
from liquid.builtin.tags.for_tag import BreakTag, ContinueTag, ForNode, ForTag
from liquid.builtin.tags.if_tag import IfNode, IfTag
from liquid.builtin.tags.inline_comment_tag import InlineCommentTag
from liquid.builtin.tags.unless_tag import UnlessNode, UnlessTag
from liquid.exceptions import FilterValueError
from liquid.stringify import to_liquid_string
from liquid.tag import Tag
from liquid.undefined import FalsyStrictUndefined

from shared.rendering.bounds import MAX_NAMESPACE_BYTES, MAX_OUTPUT_BYTES, BadValue, BoundedContext
from shared.rendering.filters import bounded_filters
from shared.rendering.kinds import ESCAPES, Escaped, Kind, escape_whole_url

FILTERS = bounded_filters()


class Counted(Node):
    """Mixed into every node that can stand in a loop: counts a step each time it is rendered."""

    def render(self, context: RenderContext, buffer: TextIO) -> int:
        """Count one step, then render."""
        assert isinstance(context, BoundedContext)  # noqa: S101 - templates are rendered by liquid.py only
        context.budget.step()
        return super().render(context, buffer)


class CountedContent(Counted, ContentNode):
    """The author's own words."""


class CountedAssign(Counted, AssignNode):
    """``{% assign %}``."""


class CountedCase(Counted, CaseNode):
    """``{% case %}``."""


class CountedComment(Counted, CommentNode):
    """``{% comment %}`` and ``{% # … %}``."""


class CountedFor(Counted, ForNode):
    """``{% for %}``."""


class CountedIf(Counted, IfNode):
    """``{% if %}``."""


class CountedUnless(Counted, UnlessNode):
    """``{% unless %}``."""


class EscapedCapture(Counted, CaptureNode):
    """``{% capture %}``: what it keeps was escaped on its way in."""

    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        """Keep the block's output as escaped."""
        kept = context.get_buffer(buffer)
        self.block.render(context, kept)
        context.assign(self.name, Escaped(kept.getvalue()))
        return 0


class EscapedOutput(Counted, OutputNode):
    """``{{ … }}``: the only place where a value reaches the output, and the only place that escapes."""

    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        """Write the value, escaped for the environment's kind."""
        assert isinstance(context.env, KindEnvironment)  # noqa: S101 - made by this environment's parser
        try:
            value = self.expression.evaluate(context)
        except BadValue as exc:
            raise FilterValueError(f"{exc.message}, in {self}", token=self.token) from exc
        if isinstance(value, Escaped):
            return buffer.write(value)
        written = to_liquid_string(value, autoescape=False)
        if context.env.kind is Kind.URL and buffer.tell() == 0:
            return buffer.write(escape_whole_url(written))
        return buffer.write(ESCAPES[context.env.kind](written))


_TAGS: tuple[tuple[type[Tag], type[Node] | None], ...] = (
    (Literal, CountedContent),
    (Output, EscapedOutput),
    (Illegal, None),
    (AssignTag, CountedAssign),
    (BreakTag, None),
    (CaptureTag, EscapedCapture),
    (CaseTag, CountedCase),
    (CommentTag, CountedComment),
    (ContinueTag, None),
    (ForTag, CountedFor),
    (IfTag, CountedIf),
    (InlineCommentTag, CountedComment),
    (UnlessTag, CountedUnless),
)

TAG_WORDS = (
    *("assign", "break", "capture", "case", "comment", "continue", "else", "elsif", "for", "if", "raw"),
    *("render", "unless", "when"),
)
"""The words that may follow ``{%``, for did-you-mean."""


class KindEnvironment(Environment):
    """The grammar for templates whose output is read as ``kind``."""

    block_nesting_limit = 20
    context_depth_limit = 30
    local_namespace_limit: ClassVar[int | None] = MAX_NAMESPACE_BYTES
    output_stream_limit: ClassVar[int | None] = MAX_OUTPUT_BYTES

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        super().__init__(tolerance=Mode.STRICT, undefined=FalsyStrictUndefined)

    def setup_tags_and_filters(self, *, extra: bool = False) -> None:  # noqa: ARG002 - the base class's signature
        """Register the allow-list and nothing else."""
        for tag_class, node_class in _TAGS:
            tag = tag_class(self)
            # The library forgives a stray else or elsif; a silent branch is not what its author meant.
            tag.mode = Mode.STRICT  # type: ignore[attr-defined]  # only if and unless read it
            if node_class is not None:
                tag.node_class = node_class  # type: ignore[attr-defined]  # each tag names its node so
            self.tags[tag.name] = tag
        self.filters.update(FILTERS)
