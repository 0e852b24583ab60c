"""A layout of the tenant's own: one template around the content of every mail."""

from shared.rendering.kinds import Kind
from shared.rendering.layout import layout_schema
from shared.rendering.liquid import TemplateMistakes, parse_template
from shared.rendering.uses import uses_of
from shared.tenantfile.nodes import Node, Report
from shared.tenantfile.paths import Paths
from shared.tenantfile.sources import Source
from shared.tenantfile.templates import TemplateCheck
from shared.tenantfile.texts import TextReader


def read_layout(node: Node | None, texts: TextReader) -> str | None:
    """The layout, or None: Waybill's own, or a mistake."""
    source = None if node is None else texts.source(node)
    if source is None:
        return None
    schema = layout_schema()
    TemplateCheck(Paths(schema, schema), texts.report).check_source(source, Kind.HTML)
    _check_content(source, texts.report)
    return source.text


def _check_content(source: Source, report: Report) -> None:
    try:
        template = parse_template(source.text, Kind.HTML)
    except TemplateMistakes:
        return
    # Printed as it is: behind a filter it would be text again, and escaped.
    if not any(use.path == ("content",) and use.printed for use in uses_of(template)):
        report.add(source.place, "needs {{ content }} in it, the place where the mail's own words go")
