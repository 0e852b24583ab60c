"""A whole tenant file checked: the compiled tenant, or every mistake at once."""

from dataclasses import dataclass, replace
from pathlib import Path

from shared.channel import Channel
from shared.errors import TenantFileError
from shared.tenant import EventType, Tenant
from shared.tenantfile.basics import (
    NAME,
    TENANT_KEY,
    read_app_link_schemes,
    read_categories,
    read_locales,
    read_partials,
    read_retention,
    read_timezone,
    read_website,
)
from shared.tenantfile.eventtype import Around, read_event_type
from shared.tenantfile.later import LATER_AT_TOP, LATER_CHANNELS
from shared.tenantfile.layout import read_layout
from shared.tenantfile.load import load
from shared.tenantfile.nodes import Block, Report
from shared.tenantfile.section import Section, as_block
from shared.tenantfile.senders import read_senders
from shared.tenantfile.terms import Options, email_warning, read_options
from shared.tenantfile.texts import TextReader

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Checked:
    """A tenant file without mistakes; ``warnings`` are for its author to think about.

    ``root`` is the file as it was written, for what is found wrong later.
    """

    tenant: Tenant
    source: str
    warnings: list[str]
    root: Block


def check_file(path: Path) -> Checked:
    """The tenant file at ``path``, checked. Raises TenantFileError with every mistake."""
    try:
        source = path.read_bytes()
    except OSError as exc:
        raise TenantFileError([f"{path}: cannot be read: {exc.strerror}"]) from exc
    return check(source, path.name, path.parent)


def check(source: bytes, file_name: str, folder: Path) -> Checked:
    """The tenant file ``source``; ``{file: …}`` is read from ``folder``. Raises TenantFileError."""
    report = Report(file_name)
    root = load(source, report)
    block = as_block(root, report)
    if block is None:
        report.fail()
    section = Section(block, report, {**LATER_AT_TOP, **LATER_CHANNELS})
    _check_format(section)
    tenant, texts = _read_basics(section, folder, report)
    defaults_section = section.section("defaults")
    defaults = Options() if defaults_section is None else read_options(defaults_section)
    if defaults_section is not None:
        defaults_section.close()
    around = Around(tenant, texts, defaults, report)
    event_types = _read_event_types(section, around)
    section.close()
    report.raise_if_any()
    warnings = [
        warning
        for event_type in event_types.values()
        if event_type.email and (warning := email_warning(event_type.id, event_type.email.how))
    ]
    return Checked(replace(tenant, event_types=event_types), source.decode("utf-8-sig"), warnings, block)


def sender_warnings(tenant: Tenant) -> list[str]:
    """A sentence for each channel that the tenant's messages wait for because it has no sender."""
    senders = {Channel.EMAIL: tenant.senders.email, Channel.PUSH: tenant.senders.push}
    waiting = {
        channel: [each.id for each in tenant.event_types.values() if channel in each.channels()]
        for channel, sender in senders.items()
        if sender is None
    }
    return [
        f"senders.{channel} is missing: {', '.join(names)} will wait on {channel} until there is one"
        for channel, names in waiting.items()
        if names
    ]


def _check_format(section: Section) -> None:
    version = section.number("waybill", FORMAT, FORMAT, whole=True)
    if version is None and not section.has("waybill"):
        section.report.add(section.node.place, f"waybill is missing: begin the file with waybill: {FORMAT}")


def _read_basics(section: Section, folder: Path, report: Report) -> tuple[Tenant, TextReader]:
    key = section.text("tenant", required=True) or "unknown"
    if section.has("tenant") and not TENANT_KEY.fullmatch(key):
        place = section.node.entries["tenant"].place
        report.add(place, "begins with a small letter and has small letters, digits, _ - only, 63 at most")
    locales = read_locales(section)
    texts = TextReader(folder, locales, report)
    texts.partials = read_partials(section.section("partials"), texts)
    tenant = Tenant(
        key=key,
        name=section.text("name", required=True) or key,
        locales=locales,
        timezone=read_timezone(section),
        website=read_website(section),
        app_link_schemes=read_app_link_schemes(section),
        retention=read_retention(section.section("retention")),
        senders=read_senders(section.section("senders")),
        email_layout=read_layout(section.get("email_layout"), texts),
        categories=read_categories(section.section("categories"), texts),
    )
    return tenant, texts


def _read_event_types(section: Section, around: Around) -> dict[str, EventType]:
    node = section.required("event_types")
    block = None if node is None else as_block(node, around.report)
    event_types: dict[str, EventType] = {}
    for name, child in ({} if block is None else block.entries).items():
        if not NAME.fullmatch(name):
            around.report.add(child.place, "a name begins with a letter and has letters, digits, _ . - only")
        event_type = read_event_type(name, child, around)
        if event_type is not None:
            event_types[name] = event_type
    return event_types
