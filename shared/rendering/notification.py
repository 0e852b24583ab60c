"""The push notification of an event."""

from shared.content import PushContent, WebStyle
from shared.rendering.kinds import Kind
from shared.rendering.links import absolute_link
from shared.rendering.writer import Writer
from shared.tenant import PushRule


def write_notification(rule: PushRule, writer: Writer) -> PushContent:
    """What phones and browsers show. Raises RenderError."""
    collapse = None if rule.collapse is None else " ".join(writer.one(rule.collapse, "collapse").split())
    icon = rule.web.icon
    return PushContent(
        title=writer.line(rule.title, "title"),
        body=writer.write(rule.body, Kind.TEXT, "body").strip(),
        locale=writer.locale,
        link=writer.link(rule.link),
        data={key: writer.one(source, f"data.{key}") for key, source in rule.data.items()},
        badge=rule.badge,
        urgency=rule.urgency,
        ttl=rule.ttl,
        collapse=collapse or None,
        android=rule.android,
        apple=rule.apple,
        web=WebStyle(None if icon is None else absolute_link(icon, writer.tenant.website, "web.icon")),
    )
