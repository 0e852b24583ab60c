"""The parts of a tenant file around its event types: who it is, its categories and retention."""

import re

from shared.channel import BUILT_CHANNELS, Channel
from shared.errors import RenderError
from shared.rendering.formats import find_locale, find_zone, zone_names
from shared.rendering.links import absolute_link
from shared.suggestion import did_you_mean
from shared.tenant import Category, Retention
from shared.tenantfile.later import LATER_CHANNELS
from shared.tenantfile.nodes import Report, Scalar
from shared.tenantfile.partials import Partials
from shared.tenantfile.section import Section, as_block
from shared.tenantfile.sources import Localized
from shared.tenantfile.texts import TextReader

TENANT_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{1,30}")
_SCHEMES_NEVER = {"http", "https", "javascript", "data", "file", "vbscript", "blob", "about", "mailto", "tel"}


def read_locales(section: Section) -> tuple[str, ...]:
    """The locales, English when the file names none."""
    locales: list[str] = []
    for item in section.texts("locales") or []:
        name = str(item.value)
        if find_locale(name) is None or "_" in name:
            section.report.add(item.place, f"unknown locale {name}; write it like de or de-AT")
        elif name in locales:
            section.report.add(item.place, f"{name} is given twice")
        else:
            locales.append(name)
    return tuple(locales) or ("en",)


def read_timezone(section: Section) -> str:
    """The zone, UTC when the file names none."""
    name = section.text("timezone")
    if name is None:
        return "UTC"
    if find_zone(name) is None:
        place = section.node.entries["timezone"].place
        section.report.add(place, f"unknown time zone {name}{did_you_mean(name, zone_names())}")
        return "UTC"
    return name


def read_website(section: Section) -> str | None:
    """The address that links beginning with ``/`` begin at."""
    website = section.text("website")
    if website is None:
        return None
    try:
        absolute_link(website, None, "it")
    except RenderError:
        section.report.add(section.node.entries["website"].place, "must be an address that begins with https://")
        return None
    if "?" in website or "#" in website:
        section.report.add(section.node.entries["website"].place, "must end with its path: no ? and no #")
    return website.rstrip("/")


def read_app_link_schemes(section: Section) -> tuple[str, ...]:
    """The schemes a phone may open besides https."""
    schemes: list[str] = []
    for item in section.texts("app_link_schemes") or []:
        name = str(item.value)
        if not _SCHEME.fullmatch(name) or name in _SCHEMES_NEVER:
            section.report.add(item.place, f"{name} cannot be an app's scheme; write it like campus")
        schemes.append(name)
    return tuple(schemes)


def read_retention(section: Section | None) -> Retention:
    """How long things are kept."""
    if section is None:
        return Retention()
    retention = Retention(section.duration("events"), section.duration("content"))
    section.close()
    if retention.events and retention.content and retention.content > retention.events:
        section.report.add(section.node.place, "content cannot be kept longer than its events")
    return retention


def read_categories(section: Section | None, texts: TextReader) -> dict[str, Category]:
    """What people can switch off."""
    categories: dict[str, Category] = {}
    for name, node in ({} if section is None else section.node.entries).items():
        report = texts.report
        if not NAME.fullmatch(name):
            report.add(node.place, "a name begins with a letter and has letters, digits, _ . - only")
        block = as_block(node, report)
        if block is None:
            continue
        entry = Section(block, report)
        title = texts.read(entry.required("title"))
        critical = entry.boolean("critical") or False
        default_channels = _read_channels(entry, report)
        entry.close()
        categories[name] = Category({} if title is None else title.texts(), critical, default_channels)
    return categories


def _read_channels(section: Section, report: Report) -> tuple[Channel, ...] | None:
    items: list[Scalar] | None = section.texts("default_channels")
    if items is None:
        return None
    built = {channel.value: channel for channel in BUILT_CHANNELS}
    channels = []
    for item in items:
        word = str(item.value)
        if word in LATER_CHANNELS:
            report.add(item.place, f"not yet: {LATER_CHANNELS[word]}")
        elif word not in built:
            report.add(item.place, f"unknown channel {word}{did_you_mean(word, built)}")
        else:
            channels.append(built[word])
    return tuple(channels)


def read_partials(section: Section | None, texts: TextReader) -> Partials:
    """Texts that templates take in by name."""
    by_name: dict[str, Localized] = {}
    for name, node in ({} if section is None else section.node.entries).items():
        if not NAME.fullmatch(name):
            texts.report.add(node.place, "a name begins with a letter and has letters, digits, _ . - only")
        elif (partial := texts.read(node)) is not None:
            by_name[name] = partial
    return Partials(by_name, texts.report)
