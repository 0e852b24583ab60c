"""The inbox entry of an event."""

from shared.content import InappContent
from shared.rendering.kinds import Kind
from shared.rendering.writer import Writer
from shared.tenant import InappRule


def write_entry(rule: InappRule, writer: Writer) -> InappContent:
    """What the inbox shows. Raises RenderError."""
    return InappContent(
        title=writer.line(rule.title, "title"),
        body=writer.write(rule.body, Kind.TEXT, "body").strip(),
        locale=writer.locale,
        link=writer.link(rule.link),
        icon=rule.icon,
        data={key: writer.one(source, f"data.{key}") for key, source in rule.data.items()},
    )
