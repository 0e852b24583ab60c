"""What an event type says on phones and in browsers."""

from datetime import timedelta
from typing import cast, get_args

from shared.channel import Channel
from shared.content import AndroidStyle, AppleStyle, Urgency, WebStyle
from shared.tenant import PushRule
from shared.tenantfile.content import ContentReader, Message, emptiness
from shared.tenantfile.nodes import find_node
from shared.tenantfile.section import Section
from shared.tenantfile.terms import Options, read_options

LONGEST_TTL = timedelta(days=28)
"""What Firebase keeps a message for at most."""
RESERVED_KEYS = ("from", "message_type")
RESERVED_PREFIXES = ("google", "gcm", "waybill_")
"""Keys of data that Firebase refuses, and those that are ours."""


def read_push(reader: ContentReader, section: Section, message: Message, above: Options) -> PushRule | None:
    """The notification, or None and a mistake."""
    reader.places[Channel.PUSH] = section.node.place
    title = reader.own_or(section, "title", message.title, emptiness)
    body = reader.own_or(section, "body", message.body)
    own_link = reader.link(section.section("link"))
    link = own_link if section.has("link") else message.link
    data = reader.data(section)
    _check_keys(section, data)
    badge = section.choice("badge", ["unread"])
    urgency = section.choice("urgency", get_args(Urgency))
    ttl = _read_ttl(section)
    collapse = reader.one(section.get("collapse"), "collapse")
    android = _read_words(section, "android", "channel_id", "icon")
    apple = _read_words(section, "apple", "sound", "thread_id")
    web = _read_words(section, "web", "icon")
    _check_icon(section, web["icon"])
    how = read_options(section).over(above).terms_for(Channel.PUSH)
    section.close()
    if title is None or body is None:
        return None
    return PushRule(
        how=how,
        title=title.texts(),
        body=body.texts(),
        link=None if link is None else link.template(),
        data=data,
        badge="unread" if badge else None,
        urgency=cast("Urgency | None", urgency),
        ttl=ttl,
        collapse=collapse,
        android=AndroidStyle(**android),
        apple=AppleStyle(**apple),
        web=WebStyle(**web),
    )


def _check_keys(section: Section, data: dict[str, str]) -> None:
    for key in data:
        if key in RESERVED_KEYS or key.startswith(RESERVED_PREFIXES):
            place = find_node(section.node, ("data", key))[0].place
            section.report.add(place, f"the key {key} is reserved: take another name for it")


def _read_ttl(section: Section) -> timedelta | None:
    ttl = section.duration("ttl")
    if ttl is not None and ttl > LONGEST_TTL:
        section.report.add(section.node.entries["ttl"].place, f"can be {LONGEST_TTL.days}d at most")
    return ttl


def _read_words(section: Section, key: str, *words: str) -> dict[str, str | None]:
    """The texts of the mapping under ``key``, each None where it is not given."""
    block = section.section(key)
    if block is None:
        return dict.fromkeys(words)
    read = {word: block.text(word) for word in words}
    block.close()
    return read


def _check_icon(section: Section, icon: str | None) -> None:
    if icon is not None and (not icon.startswith(("/", "https://")) or icon.startswith("//")):
        section.report.add(find_node(section.node, ("web", "icon"))[0].place, "must begin with https:// or /")
