"""Parcels to hand to a provider, whole but for what a test is about."""

from dataclasses import replace
from typing import Any

from shared.channel import Channel
from shared.content import EmailContent
from shared.delivery.provider import Parcel
from shared.ids import JobId, ScopeId, TenantId, new_event_id
from shared.tenant import EmailSender, Mode, ScopedTenant, Senders, Tenant

CONTENT = EmailContent(
    to_address="bob@inbox.example",
    to_name="Bob",
    subject="Linear algebra is booked",
    text="Hello Bob,\nsee you there.\n",
    html="<p>Hello Bob, see you there.</p>\n",
    locale="en",
)
SENDER = EmailSender("hello@campus.example", "CampusCritique", "help@campus.example")


def email_parcel(sender: EmailSender | None = SENDER, **content: Any) -> Parcel:
    """A parcel with one mail; ``content`` replaces fields of it."""
    tenant = Tenant("campus", "CampusCritique", ("en",), senders=Senders(sender))
    return Parcel(
        job_id=JobId(1),
        event_id=new_event_id(),
        scope_id=ScopeId(1),
        channel=Channel.EMAIL,
        recipient_id="bob",
        content=replace(CONTENT, **content),
        tenant=ScopedTenant(ScopeId(1), TenantId(1), Mode.LIVE, 1, tenant),
        attempt=1,
        possible_duplicate=False,
    )
