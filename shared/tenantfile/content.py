"""What an event type says: its message, and what each channel says otherwise."""

from collections.abc import Callable
from dataclasses import dataclass, field

from shared.address import address_problem
from shared.channel import Channel
from shared.rendering.kinds import Kind
from shared.tenant import EmailRule, InappRule, LinkTemplate, Texts
from shared.tenantfile.nodes import Block, Node, Place, Report
from shared.tenantfile.section import Section, as_block, as_text
from shared.tenantfile.sources import Localized, Source
from shared.tenantfile.terms import Options, read_options
from shared.tenantfile.texts import TextReader

Problem = Callable[[str], str | None]
"""What is wrong with the output of a template, in words that go on from its name."""


def emptiness(written: str) -> str | None:
    """What is wrong with an output that has nothing in it."""
    return None if written.strip() else "comes out empty"


def no_address(written: str) -> str | None:
    """What is wrong with an output that is to be a mail address."""
    problem = address_problem(written.strip())
    return None if problem is None else f"comes out as something that {problem}"


@dataclass(frozen=True, slots=True)
class Piece:
    """One text of an event type: what its output is read as, and what may be wrong with what it comes out as."""

    text: Localized
    kind: Kind
    name: str
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class LinkPieces:
    """A link as it was written, with its place."""

    place: Place
    url: Localized
    label: Localized | None
    app: Localized | None

    def template(self) -> LinkTemplate:
        """What goes into the model."""
        return LinkTemplate(self.url.texts(), _texts(self.label), _texts(self.app))


@dataclass(frozen=True, slots=True)
class Message:
    """What every channel says unless it says otherwise."""

    title: Localized | None = None
    body: Localized | None = None
    link: LinkPieces | None = None


@dataclass
class ContentReader:
    """Reads the texts of one event type; keeps each in ``pieces`` and ``links``, to be checked and tried out."""

    texts: TextReader
    report: Report
    pieces: list[Piece] = field(default_factory=list)
    links: list[LinkPieces] = field(default_factory=list)
    places: dict[Channel, Place] = field(default_factory=dict)

    def message(self, section: Section | None) -> Message:
        """The message of the event type; empty when there is none."""
        if section is None:
            return Message()
        message = Message(
            title=self.text(section.get("title"), Kind.TEXT, "title", emptiness),
            body=self.text(section.get("body"), Kind.TEXT, "body"),
            link=self.link(section.section("link")),
        )
        section.close()
        return message

    def inapp(self, section: Section, message: Message, above: Options) -> InappRule | None:
        """The inbox entry, or None and a mistake."""
        self.places[Channel.INAPP] = section.node.place
        title = self.own_or(section, "title", message.title, emptiness)
        body = self.own_or(section, "body", message.body)
        own_link = self.link(section.section("link"))
        link = own_link if section.has("link") else message.link
        icon = section.text("icon")
        data = self.data(section)
        how = read_options(section).over(above).terms_for(Channel.INAPP)
        section.close()
        if title is None or body is None:
            return None
        return InappRule(how, title.texts(), body.texts(), None if link is None else link.template(), icon, data)

    def email(self, section: Section, message: Message, above: Options) -> EmailRule | None:
        """The mail, or None and a mistake. With neither markdown, html nor text it says what the message says."""
        self.places[Channel.EMAIL] = section.node.place
        subject = self.text(section.get("subject"), Kind.TEXT, "subject", emptiness) or message.title
        title = self.text(section.get("title"), Kind.TEXT, "title") or message.title
        preheader = self.text(section.get("preheader"), Kind.TEXT, "preheader")
        markdown = self.text(section.get("markdown"), Kind.MARKDOWN, "markdown")
        html = self.text(section.get("html"), Kind.HTML, "html")
        text = self.text(section.get("text"), Kind.TEXT, "text")
        reply_to = self.one(section.get("reply_to"), "reply_to", no_address)
        own_link = self.link(section.section("link"))
        link = own_link if section.has("link") else message.link
        how = read_options(section).over(above).terms_for(Channel.EMAIL)
        section.close()
        self._check_mail(section, message, has_subject=subject is not None)
        if text is None and markdown is None:
            text = message.body
        if subject is None or (text is None and markdown is None):
            return None
        return EmailRule(
            how=how,
            subject=subject.texts(),
            title=_texts(title),
            preheader=_texts(preheader),
            markdown=_texts(markdown),
            html=_texts(html),
            text=_texts(text),
            link=None if link is None else link.template(),
            reply_to=reply_to,
        )

    def link(self, section: Section | None) -> LinkPieces | None:
        """A link; its address and the app's are URLs, its label is text."""
        if section is None:
            return None
        url = self.text(section.required("url"), Kind.URL, "link.url", emptiness)
        label = self.text(section.get("label"), Kind.TEXT, "link.label")
        app = self.text(section.get("app"), Kind.URL, "link.app", emptiness)
        section.close()
        if url is None:
            return None
        for _locales, source in url.each():
            begins = source.text.strip().split("{", 1)[0]
            if begins and (not begins.startswith(("/", "https:")) or begins.startswith("//")):
                self.report.add(source.place, "must begin with https:// or /")
        link = LinkPieces(section.node.place, url, label, app)
        self.links.append(link)
        return link

    def text(self, node: Node | None, kind: Kind, name: str, problem: Problem | None = None) -> Localized | None:
        """One text, remembered as a piece."""
        text = self.texts.read(node)
        if text is not None:
            self.pieces.append(Piece(text, kind, name, problem))
        return text

    def one(self, node: Node | None, name: str, problem: Problem | None = None) -> str | None:
        """A template of plain text that is the same in every locale, remembered as a piece."""
        text = None if node is None else as_text(node, self.report)
        if node is None or text is None:
            return None
        self.pieces.append(Piece(Localized({"": Source(node.place, text)}), Kind.TEXT, name, problem))
        return text

    def own_or(
        self, section: Section, key: str, fallback: Localized | None, problem: Problem | None = None
    ) -> Localized | None:
        """The channel's own text under ``key``, else what the message says; None and a mistake when neither does."""
        if section.has(key):
            return self.text(section.get(key), Kind.TEXT, key, problem)
        section.get(key)
        if fallback is None:
            self.report.add(section.node.place, f"{key} is missing: neither here nor in message")
        return fallback

    def data(self, section: Section) -> dict[str, str]:
        """What goes to the product's own code, a template of plain text for each key."""
        node = section.get("data")
        block: Block | None = None if node is None else as_block(node, self.report)
        entries = {} if block is None else block.entries
        written = {key: self.one(value, f"data.{key}") for key, value in entries.items()}
        return {key: text for key, text in written.items() if text is not None}

    def _check_mail(self, section: Section, message: Message, *, has_subject: bool) -> None:
        if not has_subject and not section.has("subject"):
            self.report.add(section.node.place, "subject is missing, and message has no title")
        written = [key for key in ("markdown", "html", "text") if section.has(key)]
        if not written and message.body is None:
            self.report.add(section.node.place, "markdown is missing, and message has no body")
        if "html" in written and "markdown" in written:
            self.report.add(section.node.place, "give markdown, or html with text, not both")
        elif "html" in written and "text" not in written:
            self.report.add(section.node.place, "html needs text beside it: every mail has both")


def _texts(text: Localized | None) -> Texts | None:
    return None if text is None else text.texts()
