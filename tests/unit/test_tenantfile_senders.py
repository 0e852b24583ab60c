"""What a tenant file says about senders, layout and addressee, and how its mistakes are told."""

from pathlib import Path

import pytest

from shared.recipient import Recipient
from shared.tenant import EmailSender, FcmProject, OwnRelay, PushSender, Reference
from tests.tenantfiles import HEAD, event_type_of, file_with_type, mistakes_in, read_file

MAIL = "channels: {email: {subject: S, text: T}}"
SECRET = "smtps://campus:hunter2@relay.example"


def of_senders(senders: str) -> list[str]:
    """The mistakes of a file with these senders, without line and column."""
    return [line.split(" ", 1)[1] for line in mistakes_in(f"{HEAD}senders: {senders}\nevent_types: {{}}\n")]


def test_credentials_are_kept_as_references() -> None:
    senders = read_file(
        HEAD
        + "senders: {email: {from: a@b.example, relay: {url: {env: ACME_SMTP_URL}}}, "
        + "push: {fcm: {service_account: {file: secrets/acme.json}}}}\nevent_types: {}\n"
    ).senders
    assert senders.email == EmailSender("a@b.example", relay=OwnRelay(Reference(env="ACME_SMTP_URL")))
    assert senders.push == PushSender(FcmProject(Reference(file="secrets/acme.json")))


def test_a_sender_may_have_a_cap() -> None:
    file = HEAD + "senders: {email: {from: a@b.example, per_second: 2.5}}\nevent_types: {}\n"
    assert read_file(file).senders.email == EmailSender("a@b.example", per_second=2.5)


@pytest.mark.parametrize(
    ("url", "what"),
    [
        (f"'{SECRET}'", "must be {env: NAME} or {file: path}, never the credential itself"),
        ("{env: A, file: b}", "must be {env: NAME} or {file: path}"),
        ("{}", "must be {env: NAME} or {file: path}"),
        ("{enf: A}", "unknown key enf, did you mean env?"),
        ("{env: A B}", "must be the name of an environment variable"),
        ("{env: 3}", "must be text, not the number 3; put it in quotes"),
        (f"{{env: '{SECRET}'}}", "must be the name of an environment variable"),
    ],
)
def test_a_reference_that_is_none_is_refused_and_never_repeated(url: str, what: str) -> None:
    found = of_senders(f"{{email: {{from: a@b.example, relay: {{url: {url}}}}}}}")
    assert any(what in mistake for mistake in found), found
    assert not any("hunter2" in mistake for mistake in found)


@pytest.mark.parametrize(
    ("senders", "what"),
    [
        ("{email: {from: a@b.example, relay: {}}}", "senders.email.relay: url is missing"),
        ("{email: {from: a@b.example, per_second: 0}}", "senders.email.per_second: must be a number from 0.01"),
        ("{email: {from: a@b.example, rely: {}}}", "senders.email.rely: unknown key rely, did you mean relay?"),
        ("{psh: {}}", "senders.psh: unknown key psh, did you mean push?"),
        ("{push: {}}", "senders.push: needs fcm"),
        ("{push: {fmc: {}}}", "senders.push.fmc: unknown key fmc, did you mean fcm?"),
        ("{push: {fcm: {}}}", "senders.push.fcm: service_account is missing"),
        ("{push: {fcm: {service_acount: {env: A}}}}", "unknown key service_acount, did you mean service_account?"),
        ("{push: {webpush: {vapid_key: {env: A}}}}", "senders.push.webpush: contact is missing"),
        ("{push: {webpush: {contact: ops@a.example}}}", "push.webpush.contact: must be mailto: and an address"),
        ("{push: {webpush: {contact: 'mailto:ops'}}}", "push.webpush.contact: the address after mailto:"),
        ("{push: {webpush: {contact: 'mailto:o@a.example?cc=x'}}}", "push.webpush.contact: the address after mailto:"),
        ("{push: {webpush: {contact: 'https://localhost'}}}", "push.webpush.contact: must be mailto:"),
        ("{push: {webpush: {contact: 'http://a.example'}}}", "push.webpush.contact: must be mailto:"),
        ("{push: {webpush: {subject: 'mailto:o@a.example'}}}", "unknown key subject"),
        ("{push: {webpush: {contact: 'mailto:o@a.example', vapid_key: BOG}}}", "never the credential itself"),
    ],
)
def test_senders_that_cannot_be_are_refused(senders: str, what: str) -> None:
    assert any(what in mistake for mistake in of_senders(senders)), of_senders(senders)


def test_a_type_may_fix_whom_its_events_go_to() -> None:
    made = event_type_of(file_with_type(f"to: {{id: owner, name: Olga, email: olga@acme.example}}\n{MAIL}"))
    assert made.to == Recipient("owner", "Olga", "olga@acme.example")
    assert event_type_of(file_with_type(MAIL)).to is None


@pytest.mark.parametrize(
    ("to", "what"),
    [
        ("{}", "made.to: id is missing"),
        ("{id: owner}", "made.to: email is missing: the type goes out by email"),
        ("{id: owner, email: olga}", "made.to.email: needs an @"),
        ("{id: owner, emial: o@acme.example}", "made.to.emial: unknown key emial, did you mean email?"),
        ("{id: 7, email: o@acme.example}", "made.to.id: must be text, not the number 7"),
        (f"{{id: {'x' * 256}, email: o@acme.example}}", "made.to.id: is longer than 255 characters"),
        ("olga", "made.to: must be a mapping, not text"),
    ],
)
def test_an_addressee_that_cannot_be_is_refused(to: str, what: str) -> None:
    found = mistakes_in(file_with_type(f"to: {to}\n{MAIL}"))
    assert any(what in mistake for mistake in found), found


@pytest.mark.parametrize(
    ("reply_to", "what"),
    [
        ("{{ payload.emial }}", "email.reply_to: unknown variable payload.emial"),
        ("{{ payload.note }}", "email.reply_to: payload.note is optional"),
        ("{{ payload.course }}", "reply_to: with the example it comes out as something that needs an @"),
        ("{{ payload.course }}@b.example,c@d.example", "it comes out as something that must be exactly one"),
    ],
)
def test_a_reply_address_that_cannot_be_is_refused(reply_to: str, what: str) -> None:
    found = mistakes_in(file_with_type(f"channels: {{email: {{subject: S, text: T, reply_to: '{reply_to}'}}}}"))
    assert any(what in mistake for mistake in found), found


def with_layout(layout: str, folder: Path) -> list[str]:
    (folder / "layout.liquid").write_text(layout, "utf-8")
    return mistakes_in(f"{HEAD}email_layout: {{file: layout.liquid}}\nevent_types: {{}}\n", folder)


def test_a_layout_has_the_content_in_it_and_reads_only_what_there_is(tmp_path: Path) -> None:
    good = (
        "<h1>{% if title %}{{ title }}{% endif %}</h1>{{ content }}{% if button %}"
        "<a href='{{ button.url }}'>{{ button.label }}</a>{% endif %}<p>{{ sender_name }}, {{ tenant.name }}</p>"
    )
    assert with_layout(good, tmp_path) == []
    for layout, what in [
        ("<p>no place for it</p>", "email_layout: needs {{ content }} in it"),
        ("{{ content | upcase }}", "email_layout: needs {{ content }} in it"),
        ("{{ content }}\n{{ contnt }}", "layout.liquid line 2: unknown variable contnt, did you mean content?"),
        ("{{ content }}{{ payload.course }}", "unknown variable payload.course"),
        ("{{ content }}{{ title }}", "title is optional"),
        ("{{ content }}{% echo title %}", "unknown tag echo"),
        ("{{ content }}{% if title %}", "layout.liquid line 1: "),
    ]:
        (mistake,) = with_layout(layout, tmp_path)
        assert what in mistake
    (mistake,) = mistakes_in(f"{HEAD}email_layout: {{file: none.liquid}}\nevent_types: {{}}\n", tmp_path)
    assert "email_layout: none.liquid cannot be read" in mistake
