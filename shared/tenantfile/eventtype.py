"""One event type of the file: its payload, its example and what it says, checked against each other."""

from dataclasses import dataclass
from typing import Any

from shared.address import address_problem
from shared.channel import BUILT_CHANNELS, Channel
from shared.payloads import Checker
from shared.recipient import Recipient, id_problem
from shared.rendering.variables import variables_schema
from shared.tenant import EmailRule, EventType, InappRule, PushRule, Tenant
from shared.tenantfile.content import ContentReader
from shared.tenantfile.later import LATER_CHANNELS, LATER_EMAIL
from shared.tenantfile.nodes import Node, Report, find_node, plain_value
from shared.tenantfile.paths import Paths
from shared.tenantfile.preview import preview
from shared.tenantfile.push import read_push
from shared.tenantfile.schema import read_schema
from shared.tenantfile.section import Section, as_block
from shared.tenantfile.templates import TemplateCheck
from shared.tenantfile.terms import Options, read_options
from shared.tenantfile.texts import TextReader

_NO_PAYLOAD: dict[str, Any] = {"type": "object", "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class Around:
    """What event types take from the rest of the file. ``tenant`` has everything but its event types."""

    tenant: Tenant
    texts: TextReader
    defaults: Options
    report: Report


def read_event_type(event_type_id: str, node: Node, around: Around) -> EventType | None:
    """The event type, or None when it is too broken to be one; every mistake is in the report."""
    report = around.report
    block = as_block(node, report)
    if block is None:
        return None
    before = report.count
    section = Section(block, report)
    title = section.text("title") or event_type_id
    category = section.choice("category", around.tenant.categories)
    to = _read_to(section.section("to"))
    options = read_options(section).over(around.defaults)
    schema = _read_payload(section)
    example = _read_example(section, schema)
    content = ContentReader(around.texts, report)
    rules = _read_channels(section, content, options)
    section.close()
    if to is not None and rules.email is not None and to.email is None:
        report.add(block.entries["to"].place, "email is missing: the type goes out by email")
    check = TemplateCheck(None if schema is None else Paths(variables_schema(schema), schema), report)
    for piece in content.pieces:
        check.check(piece.text, piece.kind)
    if report.count > before or schema is None or example is None:
        return None
    own = options.terms_for(Channel.INAPP)
    event_type = EventType(
        id=event_type_id,
        title=title,
        payload_schema=schema,
        example=example,
        lane=own.lane,
        expires_after=own.expires_after,
        category=category,
        to=to,
        inapp=rules.inapp,
        email=rules.email,
        push=rules.push,
    )
    preview(event_type, content, around.tenant, report)
    return event_type


def _read_to(section: Section | None) -> Recipient | None:
    """The one that events of the type go to."""
    if section is None:
        return None
    recipient_id, name, email = section.text("id", required=True), section.text("name"), section.text("email")
    section.close()
    checks = (("id", recipient_id, id_problem), ("email", email, address_problem))
    problems = [(key, problem) for key, text, check in checks if text is not None and (problem := check(text))]
    for key, problem in problems:
        section.report.add(section.node.entries[key].place, problem)
    return None if recipient_id is None or problems else Recipient(recipient_id, name, email)


@dataclass(frozen=True, slots=True)
class _Rules:
    inapp: InappRule | None = None
    email: EmailRule | None = None
    push: PushRule | None = None


def _read_channels(section: Section, content: ContentReader, options: Options) -> _Rules:
    message = content.message(section.section("message"))
    node = section.required("channels")
    block = None if node is None else as_block(node, section.report)
    if block is None:
        return _Rules()
    if not block.entries:
        section.report.add(block.place, f"needs at least one channel: {', '.join(BUILT_CHANNELS)}")
    channels = Section(block, section.report, LATER_CHANNELS)
    inapp = email = push = None
    if (entry := channels.section("inapp")) is not None:
        inapp = content.inapp(entry, message, options)
        _check_expiry(entry, inapp, options)
    if (mail := channels.section("email", LATER_EMAIL)) is not None:
        email = content.email(mail, message, options)
        _check_expiry(mail, email, options)
    if (notification := channels.section("push")) is not None:
        push = read_push(content, notification, message, options)
        _check_expiry(notification, push, options)
    channels.close()
    return _Rules(inapp, email, push)


def _check_expiry(section: Section, rule: InappRule | EmailRule | PushRule | None, options: Options) -> None:
    longest = options.terms_for(Channel.INAPP).expires_after
    if rule is not None and rule.how.expires_after > longest:
        place = section.node.entries["expires_after"].place
        section.report.add(place, "a channel cannot wait longer than its event type's expires_after")


def _read_payload(section: Section) -> dict[str, Any] | None:
    node = section.get("payload")
    return _NO_PAYLOAD if node is None else read_schema(node, section.report)


def _read_example(section: Section, schema: dict[str, Any] | None) -> dict[str, Any] | None:
    node = section.get("example")
    if schema is None:
        return None
    checker = Checker(schema)
    if node is None:
        if checker.errors({}):
            section.report.add(section.node.place, "example is missing: give a payload that fits the schema")
            return None
        return {}
    example = plain_value(node)
    errors = checker.errors(example)
    for error in errors:
        path = tuple(_step(step) for step in error.pointer.split("/")[2:])
        found, rest = find_node(node, path)
        where = f"{'.'.join(map(str, rest))} " if rest else ""
        section.report.add(found.place, f"does not fit the payload schema: {where}{error.detail}")
    return None if errors else example


def _step(text: str) -> str | int:
    return int(text) if text.isdigit() else text.replace("~1", "/").replace("~0", "~")
