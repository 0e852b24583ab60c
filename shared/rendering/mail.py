"""The mail of an event: subject, plain text, and HTML in the layout."""

import html

from shared.address import address_problem
from shared.content import EmailContent, Link
from shared.errors import RenderError
from shared.rendering.kinds import Kind
from shared.rendering.layout import Frame, lay_out
from shared.rendering.markdown import Markdown, clean_html
from shared.rendering.words import open_word
from shared.rendering.writer import Writer
from shared.tenant import EmailRule, EventType

MAX_MARKDOWN_CHARACTERS = 64 * 1024


def write_mail(event_type: EventType, rule: EmailRule, writer: Writer, address: str) -> EmailContent:
    """The mail to ``address``. Raises RenderError."""
    tenant = writer.tenant
    sender = tenant.senders.email
    link = writer.link(rule.link)
    content, text = _write_body(rule, writer)
    frame = Frame(
        locale=writer.locale,
        subject=writer.line(rule.subject, "subject"),
        title=None if rule.title is None else writer.line(rule.title, "title"),
        preheader=None if rule.preheader is None else writer.line(rule.preheader, "preheader"),
        content=content,
        link=link,
        sender_name=(sender.name if sender else None) or tenant.name,
        website=tenant.website,
    )
    category = tenant.categories.get(event_type.category or "")
    return EmailContent(
        to_address=address,
        to_name=" ".join(writer.recipient.name.split()) if writer.recipient.name else None,
        subject=frame.subject,
        text=_finish_text(text, link, frame),
        html=lay_out(frame, tenant.email_layout, writer.around),
        locale=writer.locale,
        reply_to=None if rule.reply_to is None else _address(writer.one(rule.reply_to, "reply_to").strip()),
        category=event_type.category,
        critical=category.critical if category else False,
    )


def _address(written: str) -> str:
    """``written``, if it is a mail address. Raises RenderError, which does not repeat it."""
    if (problem := address_problem(written)) is not None:
        raise RenderError(f"reply_to comes to something that is no mail address: it {problem}")
    return written


def _write_body(rule: EmailRule, writer: Writer) -> tuple[str, str]:
    """The HTML and the plain text of the content, before the layout."""
    text = None if rule.text is None else writer.write(rule.text, Kind.TEXT, "text").strip()
    if rule.markdown is not None:
        source = writer.write(rule.markdown, Kind.MARKDOWN, "markdown")
        if len(source) > MAX_MARKDOWN_CHARACTERS:
            raise RenderError(f"markdown came out longer than {MAX_MARKDOWN_CHARACTERS} characters")
        markdown = Markdown(source, writer.tenant.website)
        return markdown.html(), markdown.text() if text is None else text
    if text is None:
        raise RenderError("the mail has neither markdown nor text")
    if rule.html is not None:
        return clean_html(writer.write(rule.html, Kind.HTML, "html")), text
    return _paragraphs(text), text


def _paragraphs(text: str) -> str:
    blocks = [block.strip("\n") for block in text.replace("\r\n", "\n").split("\n\n")]
    return "\n".join(f"<p>{html.escape(block).replace(chr(10), '<br>')}</p>" for block in blocks if block.strip())


def _finish_text(text: str, link: Link | None, frame: Frame) -> str:
    parts = [frame.title] if frame.title else []
    parts.append(text)
    if link is not None:
        parts.append(f"{link.label or open_word(frame.locale)}: {link.url}")
    # The dash line with its space is how mail programs know a signature.
    parts.append("-- \n" + frame.sender_name + (f"\n{frame.website}" if frame.website else ""))
    return "\n\n".join(part for part in parts if part) + "\n"
