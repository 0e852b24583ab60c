"""Mail as a tenant shapes it: its own layout, and a reply address that comes out of the payload."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.content import UNSUBSCRIBE_PLACE, EmailContent, InappContent
from shared.errors import RenderError
from shared.ids import ScopeId, TenantId, new_event_id
from shared.job import JobReason
from shared.recipient import Recipient
from shared.rendering.decide import EventFacts, Planned, Refused, plan
from shared.rendering.layout import Frame, lay_out
from shared.tenant import Mode, ScopedTenant, Tenant
from tests.tenantfiles import HEAD, read_file

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
FORM = """
event_types:
  form:
    to: {id: owner, name: Olga, email: olga@acme.example}
    payload:
      {type: object, required: [email], additionalProperties: false, properties: {email: {type: string}}}
    example: {email: visitor@b.example}
    message: {title: "Hello {{ recipient.name | default: 'you' }}", body: B}
    channels: {inapp: {}, email: {reply_to: "{{ payload.email }}"}}
"""


def planned(tenant: Tenant, payload: dict[str, Any], recipient: Recipient) -> list[Planned | Refused]:
    """What ``form`` becomes."""
    expires_at = NOW + timedelta(hours=1)
    scoped = ScopedTenant(ScopeId(1), TenantId(1), Mode.LIVE, 1, tenant)
    return plan(scoped, EventFacts(new_event_id(), "form", recipient, payload, NOW, expires_at))


def mail_of(tenant: Tenant, payload: dict[str, Any]) -> EmailContent:
    """The mail of ``form`` to its addressee."""
    owner = tenant.event_types["form"].to
    assert owner is not None
    _, mail = planned(tenant, payload, owner)
    assert isinstance(mail, Planned) and isinstance(mail.content, EmailContent)
    return mail.content


def test_replies_go_to_the_address_in_the_payload() -> None:
    mail = mail_of(read_file(HEAD + FORM), {"email": " visitor@b.example\n"})
    assert (mail.to_address, mail.to_name) == ("olga@acme.example", "Olga")
    assert mail.reply_to == "visitor@b.example"
    assert mail.subject == "Hello Olga"


@pytest.mark.parametrize("email", ["visitor", "", "a@b.example\r\nBcc: eve@b.example", "a@b.example, c@b.example"])
def test_a_reply_address_that_is_none_fails_the_mail_and_nothing_else(email: str) -> None:
    entry, mail = planned(read_file(HEAD + FORM), {"email": email}, Recipient("owner", email="olga@acme.example"))
    assert isinstance(entry, Planned) and isinstance(entry.content, InappContent)
    assert isinstance(mail, Refused)
    assert mail.reason is JobReason.TEMPLATE_ERROR
    assert mail.detail.startswith("reply_to comes to something that is no mail address: it ")
    assert not email or email not in mail.detail


def test_the_tenants_own_layout_is_put_around_every_mail(tmp_path: Path) -> None:
    (tmp_path / "layout.liquid").write_text(
        "<html lang={{ locale }}><b>{{ tenant.name }}</b>{{ content }}<i>{{ subject }}</i></html>", "utf-8"
    )
    tenant = read_file(f"{HEAD}email_layout: {{file: layout.liquid}}{FORM}", tmp_path)
    html = mail_of(tenant, {"email": "visitor@b.example"}).html
    assert html == "<html lang=en><b>Acme</b><p>B</p><i>Hello Olga</i></html>"


def test_values_in_a_layout_of_ones_own_are_escaped_and_the_content_is_not() -> None:
    frame = Frame("en", "Tom & <Jerry>", "<p>content</p>", "Acme")
    assert lay_out(frame, "{{ subject }}{{ content }}") == "Tom &amp; &lt;Jerry&gt;<p>content</p>"


def test_a_layout_of_ones_own_says_where_the_unsubscribe_link_goes() -> None:
    assert lay_out(Frame("en", "s", "<p>content</p>", "Acme"), "{{ content }}{{ unsubscribe }}").endswith(
        UNSUBSCRIBE_PLACE
    )


def test_a_layout_that_fails_says_that_it_was_the_layout() -> None:
    with pytest.raises(RenderError, match=r"layout, line 2: "):
        lay_out(Frame("en", "s", "<p>content</p>", "Acme"), "{{ content }}\n{{ title }}")
