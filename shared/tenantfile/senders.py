"""Who a tenant's messages are from, and through which of its own providers they go out."""

import re

from shared.address import address_problem
from shared.tenant import EmailSender, FcmProject, OwnRelay, PushSender, Senders, WebPush
from shared.tenantfile.credentials import read_reference
from shared.tenantfile.later import LATER_EMAIL_SENDER
from shared.tenantfile.section import Section

LEAST_PER_SECOND, MOST_PER_SECOND = 0.01, 10_000
_WEBSITE = re.compile(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(:[0-9]+)?(/[!-~]*)?", re.IGNORECASE)
_MAILBOX = re.compile(r"(?P<name>[^<>]*)<(?P<address>[^<>]*)>")
_QUOTED = re.compile(r'"(?P<inside>(?:[^"\\]|\\.)*)"')
_QUOTED_PAIR = re.compile(r"\\(.)")


def read_senders(section: Section | None) -> Senders:
    """Who messages are from."""
    if section is None:
        return Senders()
    email = section.section("email", LATER_EMAIL_SENDER)
    push = section.section("push")
    section.close()
    return Senders(
        None if email is None else _read_email_sender(email), None if push is None else _read_push_sender(push)
    )


def _read_email_sender(section: Section) -> EmailSender | None:
    sender = section.text("from", required=True)
    reply_to = section.text("reply_to")
    relay = section.section("relay")
    url = None if relay is None else read_reference(relay, "url")
    per_second = section.number("per_second", LEAST_PER_SECOND, MOST_PER_SECOND, whole=False)
    if relay is not None:
        relay.close()
    section.close()
    report, entries = section.report, section.node.entries
    if reply_to is not None and (problem := address_problem(reply_to)):
        report.add(entries["reply_to"].place, problem)
    if sender is None:
        return None
    mailbox = _MAILBOX.fullmatch(sender.strip())
    name, address = (mailbox["name"], mailbox["address"]) if mailbox else ("", sender)
    if problem := address_problem(address.strip()):
        report.add(entries["from"].place, f"the address {problem}; write it like Campus <hello@campus.example>")
    own_relay = None if url is None else OwnRelay(url)
    return EmailSender(address.strip(), _unquoted(name) or None, reply_to, own_relay, per_second)


def _unquoted(name: str) -> str:
    """A display name as people read it, whether or not it is quoted as in a mail (RFC 5322 3.2.4)."""
    name = " ".join(name.split())
    quoted = _QUOTED.fullmatch(name)
    return name if quoted is None else _QUOTED_PAIR.sub(r"\1", quoted["inside"]).strip()


def _read_push_sender(section: Section) -> PushSender:
    fcm = section.section("fcm")
    account = None if fcm is None else read_reference(fcm, "service_account")
    if fcm is not None:
        fcm.close()
    webpush = section.section("webpush")
    browsers = None if webpush is None else _read_webpush(webpush)
    section.close()
    if not section.node.entries:
        section.report.add(section.node.place, "needs fcm: {service_account: …} or webpush: {contact: …}")
    return PushSender(None if account is None else FcmProject(account), browsers)


def _read_webpush(section: Section) -> WebPush | None:
    contact = section.text("contact", required=True)
    vapid_key = read_reference(section, "vapid_key") if section.has("vapid_key") else None
    section.close()
    if contact is not None and (problem := _contact_problem(contact)):
        section.report.add(section.node.entries["contact"].place, problem)
    return None if contact is None else WebPush(contact, vapid_key)


def _contact_problem(contact: str) -> str | None:
    """Why push services would refuse it: Apple's accepts nothing but an address that people can reach."""
    if contact.startswith("mailto:"):
        problem = address_problem(contact.removeprefix("mailto:"))
        return None if problem is None else f"the address after mailto: {problem}"
    if _WEBSITE.fullmatch(contact):
        return None
    return "must be mailto: and an address, or an https:// address, at which whoever runs it is reached"
