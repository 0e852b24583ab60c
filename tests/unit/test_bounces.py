"""Mails that came back, in the shapes that mail systems give them: who failed, how, and who only seems to have."""

from base64 import encodebytes
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.email.bounces import classify
from tests.fakes.bounces import COPY, DAEMON, PAT, SAM, mail, recipient, report

GONE, MESSAGE, LATER, US = "permanent-recipient", "permanent-message", "transient", "sender-side"


def classes(raw: bytes) -> dict[str, str]:
    return {address.lower(): kind for address, kind, _ in classify(raw)}


@pytest.mark.parametrize(
    ("status", "diagnostic", "kind"),
    [
        ("5.1.1", "smtp; 550 5.1.1 <pat.lee@dest.example>: Recipient address rejected: User unknown", GONE),
        ("5.1.1", "smtp;550-5.1.1 The email account that you tried to reach does not exist. 550 5.1.1 - gsmtp", GONE),
        ("5.0.0", 'smtp; 550 "Unknown User"', GONE),
        ("5.0.0", "smtp; 554 delivery error: dd This user doesn't have a mail.example account", GONE),
        ("5.1.1", "", GONE),
        ("5.1.2", "X-Postfix; Host or domain name not found. Name service error for name=dest.example type=MX", GONE),
        ("5.4.1", "smtp;550 5.4.1 [pat.lee@dest.example]: Recipient address rejected: Access denied", GONE),
        ("5.1.1", 'X-Postfix; unknown user: "pat.lee"', GONE),
        ("5.1.1", "X-Notes; User pat.lee (pat.lee@dest.example) not listed in Domino Directory", GONE),
        ("5.2.2", "smtp; 552 5.2.2 mailbox full", LATER),
        ("4.2.2", "smtp; 452 4.2.2 the inbox is out of storage space", LATER),
        ("5.7.1", "smtp; 554 5.7.1 looks like spam", MESSAGE),
        ("5.7.1", "smtp; 554 5.7.1 Service unavailable; Client host [192.0.2.9] blocked using list.example", US),
        ("5.7.26", "smtp; 550 5.7.26 fails to pass DMARC", US),
        ("5.3.4", "smtp; 552 5.3.4 message size exceeds fixed limit", MESSAGE),
        ("4.4.1", "X-Postfix; connect to mx.dest.example[192.0.2.9]:25: Connection timed out", LATER),
        ("4.4.1", "X-Postfix; connect to mx.dest.example[192.0.2.9]:25: Connection refused", LATER),
        ("4.4.7", "smtp; 450 4.1.1 user unknown in local recipient table", LATER),
        ("5.4.7", "smtp; 554 5.4.7 message expired in queue", LATER),
        ("4.7.0", "smtp; host mx.dest.example[192.0.2.9] refused to talk to me: 554 5.7.1 blocked", US),
        ("5.1.8", "smtp; 553 5.1.8 <orders@shop.example>... does not exist (in reply to MAIL FROM command)", US),
        ("5.4.6", "X-Postfix; mail for dest.example loops back to myself", MESSAGE),
        ("5.0.0", "", MESSAGE),
        ("5.1.0", "smtp; 550 #5.1.0 Address rejected.", GONE),
        ("5.1.0", "smtp; 550 #5.1.0 rejected by policy.", MESSAGE),
        ("5.0.0", "smtp; 550 reverse DNS lookup failed for 192.0.2.1", US),
        ("5.2.0", "smtp; 550 5.2.0 mailbox unavailable, over its allotted space", LATER),
    ],
)  # fmt: skip
def test_a_notification_is_read_by_what_the_far_end_said(status: str, diagnostic: str, kind: str) -> None:
    assert classes(report(recipient(status, diagnostic))) == {PAT: kind}


@pytest.mark.parametrize(
    ("action", "status", "kind"),
    [
        ("delayed", "4.4.1", "delayed"),
        ("delivered", "2.0.0", "none"),
        ("relayed", "2.1.5", "none"),
        ("expanded", "2.0.0", "none"),
        ("Failed", "5.1.1", GONE),
        ("failure", "5.1.1", GONE),
    ],
)
def test_only_what_failed_has_failed(action: str, status: str, kind: str) -> None:
    assert classes(report(recipient(status, "smtp; 550 5.1.1 user unknown", action))) == {PAT: kind}


def test_each_recipient_is_read_by_itself_also_without_a_blank_line_between_them() -> None:
    dead = recipient("5.1.1", "smtp; 550 5.1.1 no such user")
    full = recipient("5.2.2", "smtp; 552 5.2.2 quota exceeded", address=SAM)
    assert classes(report(dead, full)) == {PAT: GONE, SAM: LATER}
    assert classes(report(f"{dead}\n{full}")) == {PAT: GONE, SAM: LATER}


def test_an_address_that_is_none_is_looked_up_in_what_came_back() -> None:
    fields = "Final-Recipient: X400; c=us;a= ;p=dest;o=x;s=lee\nAction: failed\nStatus: 5.1.1"
    assert classes(report(fields)) == {PAT: GONE}


def test_the_words_for_people_help_out_where_the_notification_says_nothing() -> None:
    text = f"Your mail to\n\n  {PAT}\n    550 5.1.1 no such user here\n"
    assert classes(report(recipient("5.0.0"), text=text)) == {PAT: GONE}


def test_a_status_that_names_a_dead_address_is_more_than_prose_but_not_than_a_full_mailbox() -> None:
    footer = "\n______________________\nScanned for all viruses and offensive content.\n"
    assert classes(report(recipient("5.1.1"), text=f"It failed:\n\n {PAT}\n{footer}")) == {PAT: GONE}
    assert classes(report(recipient("5.1.1"), text=f"It failed:\n\n {PAT}: mailbox full\n")) == {PAT: LATER}
    apart = f"{PAT}\n   user unknown\n\n{SAM}\n   over quota\n"
    assert classes(report(recipient("5.0.0"), recipient("5.0.0", address=SAM), text=apart)) == {PAT: GONE, SAM: LATER}


def test_a_notification_is_read_whatever_its_boundary_and_its_type() -> None:
    raw = report(recipient("5.1.1"))
    assert classes(raw.replace(b'boundary="B"', b'boundary="A"')) == {PAT: GONE}
    assert classes(raw.replace(b'; boundary="B"', b"")) == {PAT: GONE}
    assert classes(report(recipient("5.1.1"), kind="text/plain; name=status.txt")) == {PAT: GONE}


def test_folded_fields_and_comments_are_read() -> None:
    fields = (
        f"Final-Recipient: rfc822;\n  <{PAT}> (Pat)\nAction: failed (really)\nStatus: 5.1.1 (bad)\n"
        f"Diagnostic-Code: smtp;\n 550 no such\n user"
    )
    assert classify(report(fields)) == [(PAT, GONE, "5.1.1")]


def texts() -> dict[str, tuple[str, str]]:
    """The bounces without a format in bounces.txt, by name: each with its class."""
    sections = Path(__file__).with_name("bounces.txt").read_text().split("=== ")[1:]
    found = {}
    for section in sections:
        title, _, text = section.partition("\n")
        name, _, kind = title.partition(" = ")
        found[name] = text.replace("{COPY}", COPY).replace("{PAT}", PAT), kind
    return found


PLAIN = texts()


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_bounces_without_a_format_are_read(name: str, line_end: str) -> None:
    text, kind = PLAIN[name]
    raw = mail(text).replace(b"\n", line_end.encode())
    assert classes(raw) == {PAT: kind}
    assert classes(b"From MAILER-DAEMON Mon Jun  1 09:05:00 2026\n" + raw) == {PAT: kind}


def test_several_recipients_in_one_text_have_their_own_words() -> None:
    text = f"The following addresses failed:\n\n<{PAT}>:\n550 5.1.1 no such user\n\n<{SAM}>:\n552 5.2.2 mailbox full\n"
    assert classes(mail(text)) == {PAT: GONE, SAM: LATER}


def test_each_paragraph_of_qmail_is_of_its_recipient_whoever_the_returned_mail_names() -> None:
    text = f"<{SAM}>:\nRemote host said: 552 5.2.2 mailbox full\n\n<{PAT}>:\nno mailbox here by that name\n\n"
    assert classes(mail(f"{text}--- Below this line is a copy of the message.\n\n{COPY}")) == {SAM: LATER, PAT: GONE}


def test_who_is_listed_like_the_one_that_the_returned_mail_names_failed_too() -> None:
    text = f"These could not be reached:\n\n  {SAM}\n     mailbox full\n  {PAT}\n     no such user\n\n"
    raw = mail(f"{text}Write to help@dest.example.\n\n----- Original message -----\n{COPY}")
    assert classes(raw) == {SAM: LATER, PAT: GONE}


@pytest.mark.parametrize(
    "told",
    [
        f"  inner@hidden.example\n    (generated from {PAT})\n    mailbox is full\n",
        f"<inner@hidden.example>\n    (reason: 552 5.2.2 Over quota)\n    (expanded from: <{PAT}>)\n",
    ],
)
def test_whoever_a_mail_was_passed_on_to_is_nobody_we_know(told: str) -> None:
    failed = "X-Failed-Recipients: inner@hidden.example\n"
    text = f"The following address(es) failed:\n\n  {SAM}\n    no such user\n{told}"
    assert classes(mail(text, headers=failed)) == {PAT: LATER}
    assert classes(report(recipient("5.0.0", address="inner@hidden.example"), text=text)) == {PAT: LATER}


@pytest.mark.parametrize(
    ("subject", "sender"),
    [
        ("Re: Your order", "Postmaster <postmaster@dest.example>"),
        ("Your order", "Mail Server <mail@dest.example>"),
        ("Undeliverable: Your order", "Gate <gate@dest.example>"),
        ("Your order", "mailer-daemon@dest.example"),
    ],
)
def test_who_returns_the_mail_and_says_that_it_failed_is_believed(subject: str, sender: str) -> None:
    told = f"It could not be delivered to {PAT}: 550 no such user.\n\n----- Original message -----\n{COPY}"
    assert classes(mail(told, subject, sender)) == {PAT: GONE}


@pytest.mark.parametrize(
    "address", ["o'pat#1=x@dest.example", '"pat lee"@dest.example', "pat@#dest.example", "pat@dest"]
)
def test_a_field_holds_any_address(address: str) -> None:
    assert classes(report(recipient("5.1.1", address=address))) == {address: GONE}
    assert classes(report(recipient("5.1.1", address=f"<{address}> (Pat)"))) == {address: GONE}


def test_html_and_base64_are_read_like_text() -> None:
    html = mail(
        f"<html><body><p>{PAT}</p><p>550 5.1.1 no such <b>user</b></p></body></html>",
        headers="Content-Type: text/html\n",
    )
    assert classes(html) == {PAT: GONE}
    encoded = encodebytes(f"<{PAT}>: 550 5.1.1 no such user\n".encode()).decode()
    assert classes(mail(encoded, headers="Content-Transfer-Encoding: base64\n")) == {PAT: GONE}


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("Delivery Status Notification (Delay)", f"Delivery to the following recipient has been delayed:\n\n"
                                                 f" {PAT}\n\nMessage will be retried for 2 more days.\n"),
        ("Warning: could not send message for past 4 hours", f"THIS IS A WARNING MESSAGE ONLY. YOU DO NOT NEED "
            f"TO RESEND YOUR MESSAGE.\n\n<{PAT}>\n451 try later\n"),
        ("Warning: message 1abc delayed 24 hours", f"The message has not yet been delivered to:\n  {PAT}\nNo "
                                                   f"action is required on your part. Delivery attempts will "
                                                   f"continue.\n"),
    ],
)  # fmt: skip
def test_a_delay_is_no_failure(subject: str, text: str) -> None:
    assert classes(mail(text, subject)) == {PAT: "delayed"}


@pytest.mark.parametrize(
    ("subject", "sender", "headers", "text"),
    [
        ("Re: delivery failure?", f"Pat <{PAT}>", "", f"Was that a 550 5.1.1 user unknown for {SAM}?\n"),
        ("Out of office: Your order", f"Pat <{PAT}>", "Auto-Submitted: auto-replied\n", f"Back on Monday. "
            f"My old address "
            f"{SAM} says 550 5.1.1 user unknown.\n"),
        ("Automatic reply: Your order", DAEMON, "", f"{PAT} is away. 550 5.1.1 user unknown\n"),
        ("Abwesenheitsnotiz", f"Pat <{PAT}>", "X-Autoreply: yes\n", f"{PAT} ist unbekannt verzogen\n"),
        ("Please confirm your message to Pat", "Mail Delivery System "
                                               "<postmaster@guard.example>", "", f"To deliver your mail to {PAT}, "
            f"click here to verify you are human.\n"),
        ("Successful Mail Delivery Report", DAEMON, "", f"<{PAT}>: delivery via mx.dest.example: 250 2.1.5 ok\n"
                                                        f"Your message was successfully delivered.\n"),
        ("Your invoice", "Billing <billing@dest.example>", "", f"The address {PAT} is unknown to us. 550 5.1.1\n"),
        ("Relayed: Your order", "postmaster@dest.example", "", f"Delivery to these recipients or groups is complete, "
                                                               f"but no notification was sent:\n\n{PAT}\n"),
        ("Invoice", "MAILER-DAEMON@evil.example", "", f"Please see the attachment. {PAT}\n"),
        ("Thank you for your e-mail", "Postmaster <support@dest.example>", "", f"We got your mail to {PAT}.\n"),
    ],
)  # fmt: skip
def test_people_and_what_answers_for_them_are_no_bounces(subject: str, sender: str, headers: str, text: str) -> None:
    assert set(classes(mail(text, subject, sender, headers)).values()) <= {"none", "delayed"}


def test_a_read_receipt_is_no_bounce() -> None:
    headers = 'Content-Type: multipart/report; report-type=disposition-notification; boundary="B"\n'
    body = (
        f"--B\n\nYour message was displayed.\n--B\nContent-Type: message/disposition-notification\n\n"
        f"Final-Recipient: rfc822; {PAT}\nDisposition: manual-action; displayed\n\n--B--\n"
    )
    assert classify(mail(body, "Read: Your order", f"Pat <{PAT}>", headers)) == []


def complaint(fields: str) -> bytes:
    headers = 'Content-Type: multipart/report; report-type=feedback-report; boundary="B"\n'
    body = (
        f"--B\n\nAn abuse report.\n--B\nContent-Type: message/feedback-report\n\n{fields}\n--B\nContent-Type: "
        f"message/rfc822\n\n{COPY}\n--B--\n"
    )
    return mail(body, "Abuse report", "feedback@provider.example", headers)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (f"Feedback-Type: abuse\nOriginal-Rcpt-To: <{SAM}>\n", {SAM: "complaint"}),
        ("Feedback-Type: abuse\nUser-Agent: x\n", {PAT: "complaint"}),
        ("Feedback-Type: fraud\n", {PAT: "complaint"}),
        (f"Feedback-Type: not-spam\nOriginal-Rcpt-To: {SAM}\n", {}),
        (f"Feedback-Type: auth-failure\nOriginal-Rcpt-To: {SAM}\n", {}),
    ],
)
def test_a_complaint_is_one_only_when_a_person_made_it(fields: str, expected: dict[str, str]) -> None:
    assert classes(complaint(fields)) == expected


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=2_000))
def test_random_bytes_are_no_trouble(raw: bytes) -> None:
    for address, kind, _ in classify(raw):
        assert isinstance(address, str)
        assert kind


SEEDS = [
    report(recipient("5.1.1", "smtp; 550 5.1.1 user unknown")),
    mail(PLAIN["exim"][0]),
    complaint("Feedback-Type: abuse\n"),
]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SEEDS), st.integers(0, 2_000), st.binary(max_size=30), st.integers(0, 2_000))
def test_cut_and_bent_mails_are_no_trouble(raw: bytes, at: int, piece: bytes, cut: int) -> None:
    classify(raw[:at] + piece + raw[at + len(piece) :])
    classify(raw[:cut])


def test_hidden_words_of_html_are_nobodys_also_where_one_is_not_closed() -> None:
    html = f"<head><style>550 5.2.2 full</style></head><p>550 5.1.1 no such user &lt;{PAT}</p><style>"
    assert classes(mail(html, headers="Content-Type: text/html\n")) == {PAT: GONE}


@pytest.mark.parametrize(
    "raw",
    [
        report(*[recipient("5.1.1", "smtp; 550 no such user", address=f"p{n}@d.example") for n in range(1_000)]),
        complaint("\n".join(f"Original-Rcpt-To: p{n}@d.example" for n in range(1_000))),
    ],
    ids=["notification", "complaint"],
)
def test_one_report_tells_of_so_many_recipients_at_most(raw: bytes) -> None:
    assert len(classify(raw)) == 200
