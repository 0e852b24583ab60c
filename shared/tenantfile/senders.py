"""Who a tenant's messages are from, and through which of its own providers they go out."""

import re

from shared.address import address_problem
from shared.tenant import EmailSender, FcmProject, OwnRelay, PushSender, Senders
from shared.tenantfile.credentials import read_reference
from shared.tenantfile.later import LATER_EMAIL_SENDER, LATER_PUSH_SENDER
from shared.tenantfile.section import Section

_MAILBOX = re.compile(r"(?P<name>[^<>]*)<(?P<address>[^<>]*)>")


def read_senders(section: Section | None) -> Senders:
    """Who messages are from."""
    if section is None:
        return Senders()
    email = section.section("email", LATER_EMAIL_SENDER)
    push = section.section("push", LATER_PUSH_SENDER)
    section.close()
    return Senders(
        None if email is None else _read_email_sender(email), None if push is None else _read_push_sender(push)
    )


def _read_email_sender(section: Section) -> EmailSender | None:
    sender = section.text("from", required=True)
    reply_to = section.text("reply_to")
    relay = section.section("relay")
    url = None if relay is None else read_reference(relay, "url")
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
    return EmailSender(address.strip(), " ".join(name.strip().strip('"').split()) or None, reply_to, own_relay)


def _read_push_sender(section: Section) -> PushSender:
    fcm = section.section("fcm")
    account = None if fcm is None else read_reference(fcm, "service_account")
    if fcm is not None:
        fcm.close()
    section.close()
    if not section.node.entries:
        section.report.add(section.node.place, "needs fcm: {service_account: …}")
    return PushSender(None if account is None else FcmProject(account))
