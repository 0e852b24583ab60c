"""Mails that speak of failures, parcels and dead addresses, and are no bounces: nobody is to suffer for them."""

import pytest

from services.email.bounces import classify

KIM, OLD = "kim.park@dest.example", "old.kim@dest.example"
PERSON = f"Kim Park <{KIM}>"
BOUNCE = f"""Return-Path: <>
From: MAILER-DAEMON@mx.relay.example
Subject: Undelivered Mail Returned to Sender
Content-Type: multipart/report; report-type=delivery-status; boundary=inner

--inner
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.relay.example

Final-Recipient: rfc822; {OLD}
Action: failed
Status: 5.1.1

--inner--
"""


def mail(sender: str, subject: str, text: str, path: str = f"<{KIM}>", headers: str = "") -> bytes:
    head = f"Return-Path: {path}\nFrom: {sender}\nTo: bounces@mail.shop.example\nSubject: {subject}\n{headers}"
    return f"{head}\n{text}\n".encode()


def parts(*kinds_and_texts: str) -> str:
    return "".join(f"--B\nContent-Type: {one}\n" for one in kinds_and_texts) + "--B--"


MIXED = "Content-Type: multipart/mixed; boundary=B\n"
LIST = "List-Id: <weekly.news.example>\n"


@pytest.mark.parametrize(
    "raw",
    [
        mail("Parcels <service@parcel.example>", "Undeliverable parcel - returned to sender", f"The recipient is "
             f"unknown at this address, so it could not be delivered. Write to {KIM}."),
        mail("Parcels <service@parcel.example>", "Your parcel could not be delivered", f"It was returned to sender "
             f"after we missed {KIM}.", path="<>"),
        mail(PERSON, "Delivery failed", f"Again! It was returned to sender, but {OLD} is my address."),
        mail("Experts <sales@spam.example>", "Stop delivery failures today", f"Undeliverable mail? 550 5.1.1 user "
             f"unknown? We remove {OLD} from your list."),
        mail(PERSON, "Undeliverable mail?", f"What is this?\n\n> could not be delivered to one or more recipients\n"
             f"> <{OLD}>: 550 5.1.1 user unknown"),
        mail(PERSON, "Fwd: failure notice", f"---- Forwarded message ----\nFrom: MAILER-DAEMON@mx.example\n\n"
             f"<{OLD}>:\nno mailbox here by that name (#5.1.1)"),
        mail("News <news@weekly.example>", "What a bounce is", f"<{OLD}>: 550 5.1.1 user unknown", headers=LIST),
        mail("Mail Delivery Weekly <bounces@weekly.example>", "Undeliverable: the anatomy of a bounce",
             f"<{OLD}>: 550 5.1.1 user unknown", headers=LIST),
        mail("Helpdesk <postmaster@dest.example>", "Case 4711 created: Delivery failure", "We will answer soon."),
        mail("Helpdesk <postmaster@dest.example>", "Delivery failure", f"Your mail:\n> {OLD} is an unknown user"),
        mail("Guard <postmaster@guard.example>", "Message held", f"Your message to {KIM} was not delivered, as you are "
             f"not on the list of approved senders. To release it, reply to this mail.", path="<>"),
        mail(PERSON, "Kim Park has left", f"{OLD} is no longer valid: 550 5.1.1. Mails are returned to sender.",
             path="<>", headers="Auto-Submitted: auto-replied\n"),
        mail("DMARC <noreply@isp.example>", "Report Domain: shop.example Submitter: isp.example",
             f"An aggregate report; 12 messages were rejected. Write to {KIM}.", path="<>"),
        mail("Mail Administrator <admin@evil.example>", "Mail delivery failed: quota", f"Your mailbox {KIM} is full, "
             f"and mails will be returned to sender. Click here.", "<>"),
        mail("Jim, Postmaster <postmaster@dest.example>", "Your server", f"You write to {OLD}, and we say 550 5.1.1."),
        mail("Tracker <tracker@dest.example>", "Mail delivery failure", f"Kim: we get 550 5.1.1 for {OLD}.", "<>"),
        mail("News <news@weekly.example>", "What a bounce is", f"<{OLD}>: 550 5.1.1", "<>", LIST),
        mail(PERSON, "Delivery failed: your parcel", f"I am on holiday.\n\n-----Original Message-----\nTo: {KIM}\n",
             "<>", "Auto-Submitted: auto-replied\n"),
        mail(PERSON, "Accepted: Delivery of order 4711", f"ATTENDEE:mailto:{OLD}",
             headers="Content-Type: text/calendar; method=REPLY\n"),
    ],
)  # fmt: skip
def test_who_only_speaks_of_failures_tells_of_none(raw: bytes) -> None:
    assert classify(raw) == []


AUTOMATIC = {
    "Automatic reply: Your order": "is no longer valid: 550 5.1.1 user unknown",
    "Automatische Antwort: Your order": "existiert nicht mehr: 550 5.1.1",
    "Réponse automatique : Your order": "n'existe plus : 550 5.1.1",
    "Respuesta automática: Your order": "ya no existe: 550 5.1.1",
    "Risposta automatica: Your order": "non esiste: 550 5.1.1",
    "Resposta automática: Your order": "não existe mais: 550 5.1.1",
    "Automatisch antwoord: Your order": "bestaat niet: 550 5.1.1",
    "Odpowiedź automatyczna: Your order": "nie istnieje: 550 5.1.1",
    "Autosvar: Your order": "finns inte: 550 5.1.1",
    "Автоответ: Your order": "не существует: 550 5.1.1",
    "自動返信: Your order": "存在しません 550 5.1.1",
}


@pytest.mark.parametrize("subject", AUTOMATIC)
def test_automatic_answers_in_any_language_tell_of_nothing(subject: str) -> None:
    headers = "Auto-Submitted: auto-replied\n"
    assert classify(mail(PERSON, subject, f"{OLD} {AUTOMATIC[subject]}", "<>", headers)) == []


ASKS = "text/plain\n\nWhy did I get this?"
NOTIFICATION = BOUNCE.partition("--inner\nContent-Type: ")[2].removesuffix("--inner--\n")


@pytest.mark.parametrize("passed_on", [f"message/rfc822\n\n{BOUNCE}", NOTIFICATION], ids=["as a mail", "as parts"])
def test_a_bounce_that_a_person_passes_on_is_not_ours(passed_on: str) -> None:
    assert classify(mail(PERSON, "What is this?", parts(ASKS, passed_on), headers=MIXED)) == []


def test_a_system_need_not_say_that_its_notification_is_one() -> None:
    sender = "Mail Delivery System <postmaster@mx.relay.example>"
    raw = mail(sender, "Returned mail", parts(NOTIFICATION), "<>", MIXED)
    assert classify(raw) == [(OLD, "permanent-recipient", "5.1.1")]


@pytest.mark.parametrize("kind", ["not-spam", "auth-failure", "dmarc"])
def test_what_no_person_said_is_no_complaint(kind: str) -> None:
    fields = f"message/feedback-report\n\nFeedback-Type: {kind}\nOriginal-Rcpt-To: {KIM}"
    headers = "Content-Type: multipart/report; report-type=feedback-report; boundary=B\n"
    assert classify(mail("fbl@isp.example", "FW: Your order", parts(fields), "<>", headers)) == []


@pytest.mark.parametrize("disposition", ["displayed", "deleted", "failed"])
def test_a_receipt_for_reading_says_nothing_of_delivery(disposition: str) -> None:
    fields = f"message/disposition-notification\n\nFinal-Recipient: rfc822; {KIM}\nDisposition: a/b; {disposition}"
    headers = "Content-Type: multipart/report; report-type=disposition-notification; boundary=B\n"
    assert classify(mail("postmaster@dest.example", "Undeliverable: Your order", parts(fields), "<>", headers)) == []


@pytest.mark.parametrize("path", ["", "<>", "<MAILER-DAEMON>", "<MAILER-DAEMON@mx.relay.example>"])
@pytest.mark.parametrize(
    ("sender", "subject", "text", "kind"),
    [
        ("no-reply@app.example", "Returned mail", f"Your mail of today\ncould not be delivered to: <{KIM}>\nAs their "
             f"mailbox is full.", "transient"),
        ("Gate <gate@dest.example>", "Undeliverable: Your order", f"Your message to {KIM} was blocked: 550 5.1.1 no "
             f"such mailbox", "permanent-recipient"),
        ("MAILER-DAEMON@mx.relay.example", "Viestin toimitus", f"Ei voitu toimittaa: {KIM}\n\n550 5.1.1",
             "permanent-recipient"),
    ],
)  # fmt: skip
def test_who_says_of_a_mail_that_it_failed_is_believed_unless_it_is_a_person(
    path: str, sender: str, subject: str, text: str, kind: str
) -> None:
    assert [(address, said) for address, said, _ in classify(mail(sender, subject, text, path))] == [(KIM, kind)]
    if "MAILER" not in sender:
        assert classify(mail(sender, subject, text)) == []
