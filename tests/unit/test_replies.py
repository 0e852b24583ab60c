"""What a relay's answer blames: wordings of many servers, in our own words, each with the classes that are right."""

import pytest

from services.email.replies import Stage, classify, judge
from shared.job import JobReason
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked

GONE, MESSAGE, LATER, US = "permanent-recipient", "permanent-message", "transient", "sender-side"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (550, "5.1.1 The account you wrote to does not exist. Look for typos and try\n5.1.1 once more. - gsmtp"),
        (550, "5.2.1 The email account that you tried to reach is inactive."),
        (550, "5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient x@y.example not found"),
        (550, "5.1.10 RESOLVER.ADR.ExRecipNotFound; not found"),
        (554, "delivery error: dd Requested mail action aborted, mailbox not found - mta1"),
        (554, "delivery error: dd This user doesn't have a webmail.example account (x@y.example)"),
        (550, "5.5.0 Requested action not taken: mailbox unavailable"),
        (550, "5.1.1 <x@y.example>: Recipient address rejected: User unknown in local recipient table"),
        (550, "Unrouteable address"),
        (550, "No Such User Here"),
        (550, "No such person at this address."),
        (551, "User not local; please try <x@z.example>"),
        (551, "we know nobody of that name"),
        (550, "5.2.1 This mailbox has been blocked due to inactivity"),
        (550, "The recipient may be a non-existent account, please check the address."),
        (550, "not accepted -- invalid mailbox. Local mailbox x@y.example is unavailable: user not found"),
        (550, "sorry, no mailbox here by that name (#5.1.1 - chkuser)"),
        (550, "user is terminated"),
        (550, "Mailbox not active"),
        (550, "failure for one or more recipients (x@y.example:550 5.1.1 <x@y.example>: User unknown)"),
        (550, "Host or domain name not found. Name service error for name=y.example type=MX: Host not found"),
        (550, "5.4.1 Recipient address rejected: Access denied. [AM6.eop-eur05.prod.protection.example]"),
        (556, "5.1.10 Domain does not accept mail (nullMX)"),
        (550, "#5.1.0 Address rejected."),
        (550, "Benutzer unbekannt"),
        (550, "Empfänger existiert nicht"),
        (550, "el usuario no existe"),
        (550, "5.1.1 Adresse d au moins un destinataire invalide."),
    ],
)
def test_a_dead_address_is_told_from_everything_else(code: int, text: str) -> None:
    assert classify("rcpt", code, text) == GONE


@pytest.mark.parametrize(
    "text",
    [
        "5.7.1 <x@y.example>: Relay access denied",
        "5.7.1 Unable to relay",
        "5.7.54 SMTP; Unable to relay recipient in non-accepted domain",
        "sorry, that domain isn't in my list of allowed rcpthosts (#5.7.1)",
        "5.7.1 <x@y.example>: Sender address rejected: Access denied",
        "5.1.8 <a@shop.example>: Sender address rejected: Domain not found",
        "Verification failed for <a@shop.example>\nUnrouteable address\nSender verify failed",
        "sorry, your envelope sender is in my badmailfrom list (#5.7.1)",
        "5.7.511 Access denied, banned sender[192.0.2.1].",
        "5.7.708 Service unavailable. Access denied, traffic not accepted from this IP.",
        "5.7.705 Access denied, tenant has exceeded threshold.",
        "5.7.515 Access denied, sending domain shop.example does not meet the required level",
        "5.4.5 Daily user sending limit exceeded.",
        "Unfortunately, messages from 192.0.2.1 weren't sent: part of their network is on our block list",
        "5.7.1 Client host [192.0.2.1] blocked using list.example",
        "5.7.1 <mail.example[192.0.2.1]>: Client host rejected: Access denied",
        "Rejected due to the sending MTA's poor reputation.",
        "mailbox unavailable\nInvalid DNS PTR resource record",
        "5.1.1 <x@y.example>: Recipient address rejected: User unknown; your IP is on a blacklist",
        "No RDNS entry for 192.0.2.1",
        "Access denied - Invalid HELO name",
        "5.7.1 We do not accept mail from dynamic IPs",
        "SPF: 192.0.2.1 is not allowed to send mail from shop.example",
        "5.7.26 Unauthenticated email from shop.example is not accepted due to domain's\n5.7.26 DMARC policy.",
        "Sending paused for this account. Look into the inbox of the email address of your account.",
        "Too many invalid recipients",
        "5.1.8 Access denied, bad outbound sender.",
    ],
)
@pytest.mark.parametrize("stage", ["rcpt", "eod"])
def test_what_is_said_about_us_harms_no_recipient(stage: str, text: str) -> None:
    assert classify(stage, 550, text) == US


@pytest.mark.parametrize(
    "text",
    [
        "5.2.2 The recipient's inbox is out of storage space and inactive.",
        "5.2.2 <x@y.example>: user is over quota",
        "5.2.2 mailbox full; Deliver.Exception:QuotaExceededException; permanent exception",
        "5.2.0 STOREDRV.Deliver; Mailbox over quota",
        "Requested mail action not taken: mailbox has exceeded storage",
        "<x@y.example>: Recipient address rejected: Mailbox is full",
        "5.2.2 Das Postfach ist voll",
        "5.2.1 The user you try to contact is receiving mail at a rate that prevents more",
        "5.7.1 Mailbox x@y.example temporarily locked",
        "user suspended, try again later",
        "5.7.1 Service refuse. Veuillez essayer plus tard. Service refused, please try later.",
    ],
)
@pytest.mark.parametrize("stage", ["rcpt", "eod"])
def test_a_full_or_busy_mailbox_may_have_room_tomorrow(stage: str, text: str) -> None:
    assert classify(stage, 552, text) == LATER


@pytest.mark.parametrize(
    "text",
    [
        "account deactivated: shop.example (sender)",
        "SMTP AUTH user unknown",
        "your user account is unknown to this relay",
        "the attachment 'account.zip' is not valid",
        "5.1.8 <a@shop.example>: unknown address",
        "5.2.2 mailbox closed, user unknown to the quota",
        "user not found: lookup failed",
        "<x@y.example>: Recipient address rejected: the signature of the mail is invalid",
        "Requested action not taken: mailbox unavailable or access refused",
        "votre compte est désactivé",
    ],
)
@pytest.mark.parametrize("stage", ["rcpt", "data", "eod"])
def test_words_of_a_dead_address_are_doubted_beside_words_of_something_else(stage: str, text: str) -> None:
    assert classify(stage, 550, text) != GONE


@pytest.mark.parametrize(
    "text",
    [
        "loop detected behind the list",
        "the file could not be written",
        "the system is not configured",
        "nameserver did not help",
        "this host is closed",
        "the sending client is too old",
        "out of memory",
    ],
)
@pytest.mark.parametrize("status", ["5.1.1", "5.1.2", "5.1.3", "5.4.4"])
def test_a_status_of_a_dead_address_is_not_believed_beside_words_of_another_matter(status: str, text: str) -> None:
    assert classify("rcpt", 550, f"{status} {text}") != "permanent-recipient"
    assert classify("rcpt", 550, f"{status} zzz") == "permanent-recipient"


@pytest.mark.parametrize("code", [530, 535, 538])
def test_a_code_of_the_login_beats_the_words_of_a_dead_address(code: int) -> None:
    assert classify("rcpt", code, "5.1.1 user unknown") == US


@pytest.mark.parametrize(
    "text",
    [
        "5.7.1 likely unsolicited mail. This message has been blocked.",
        "5.7.1 Message rejected under suspicion of SPAM",
        "Administrative prohibition",
        "5.7.7 Email policy violation detected",
        "5.7.0 Message considered as spam, virus or malware, message rejected",
        "5.6.0 The message is malformed",
        "5.3.4 Message size exceeds fixed limit",
        "5.4.14 Hop count exceeded - possible mail loop",
        "5.7.124 Sender not in allowed-senders list",
        "5.7.133 RESOLVER.RST.SenderNotAuthenticatedForGroup; authentication required when sending to this group",
        "5.7.510 Access denied, the recipient does not accept email with attachments",
        "5.7.1 <x@y.example>: Recipient address rejected: Access denied",
        "failure for one or more recipients (x@y.example:blocked)",
        "no",
        "",
        "\ufffd\ufffd",
        "5.1.1.1 is an address, and version 5.1.12b no status",
    ],
)
def test_in_doubt_it_is_the_message(text: str) -> None:
    assert classify("rcpt", 550, text) == MESSAGE
    assert classify("eod", 554, text) == MESSAGE


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("code", [400, 421, 450, 451, 452, 499])
def test_the_first_digit_4_beats_every_word(stage: Stage, code: int) -> None:
    assert classify(stage, code, "5.1.1 user unknown, and your ip is on a blacklist") == LATER


@pytest.mark.parametrize("stage", [Stage.CONNECT, Stage.HELO, Stage.AUTH])
def test_before_a_sender_is_named_every_refusal_is_about_our_relay(stage: Stage) -> None:
    verdict = judge(stage, 550, "5.1.1 user unknown, dmarc")
    assert isinstance(verdict, SenderBlocked)
    assert verdict.part == "relay"


@pytest.mark.parametrize(
    ("code", "text", "part"),
    [
        (550, "5.1.1 user unknown", "sender"),
        (550, "no", "sender"),
        (550, "5.7.1 domain not verified", "sender"),
        (530, "5.7.0 say who you are first", "relay"),
        (550, "5.7.1 authentication required", "relay"),
        (554, "5.7.1 your ip is blocked", "relay"),
        (550, "5.4.5 daily sending quota exceeded", "relay"),
    ],
)
def test_a_refusal_at_mail_blames_the_sender_unless_it_speaks_of_the_relay(code: int, text: str, part: str) -> None:
    verdict = judge(Stage.MAIL, code, text)
    assert isinstance(verdict, SenderBlocked)
    assert verdict.part == part


def test_552_at_mail_answers_the_size_that_was_announced() -> None:
    verdict = judge(Stage.MAIL, 552, "no")
    assert isinstance(verdict, Rejected)
    assert verdict.reason is JobReason.PAYLOAD_TOO_LARGE


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("code", [200, 220, 250, 251, 299])
def test_only_a_yes_after_the_final_dot_is_a_delivery(stage: Stage, code: int) -> None:
    verdict = judge(stage, code, "ok")
    assert isinstance(verdict, Delivered) == (stage is Stage.EOD)
    assert isinstance(verdict, Delivered) or verdict == NoVerdict(False, str(code), f"at {stage}: ok")


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("code", [-1, 0, 100, 199, 300, 334, 354, 399, 600, 999])
def test_a_reply_that_is_none_is_no_verdict(stage: Stage, code: int) -> None:
    verdict = judge(stage, code, "what")
    assert isinstance(verdict, NoVerdict)
    assert verdict.handed_over == (stage is Stage.EOD)


@pytest.mark.parametrize("stage", list(Stage))
@pytest.mark.parametrize("text", ["5.1.1 user unknown", "5.2.2 mailbox full", "spam", "dmarc", "no", "user suspended"])
def test_only_a_dead_address_behind_a_named_recipient_is_forgotten(stage: Stage, text: str) -> None:
    verdict = judge(stage, 550, text)
    is_dead = text == "5.1.1 user unknown" and stage in (Stage.RCPT, Stage.DATA, Stage.EOD)
    assert (isinstance(verdict, Rejected) and verdict.target_dead) == is_dead
    assert not isinstance(verdict, Delivered)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("2.0.0 Ok: queued as ABC123", "Ok: queued as ABC123"),
        ("Ok 0100018f-abc", "Ok 0100018f-abc"),
        (
            "2.6.0 <x@y.example> [InternalId=1] Queued\n2.6.0 for delivery",
            "<x@y.example> [InternalId=1] Queued 2.6.0 for delivery",
        ),
        ("", None),
        ("x" * 500, "x" * 200),
    ],
)
def test_the_relays_own_name_for_a_mail_is_kept(text: str, name: str | None) -> None:
    assert judge(Stage.EOD, 250, text) == Delivered(provider_id=name, code="250")


def test_a_deferral_carries_code_and_words() -> None:
    assert judge(Stage.RCPT, 450, "4.7.1  greylisted,\n4.7.1 come again") == Deferred(
        code="450", error="at rcpt: 4.7.1 greylisted, 4.7.1 come again"
    )


def test_a_very_long_reply_is_read_in_bounded_time() -> None:
    assert classify("rcpt", 550, "sender relay not a user mailbox " * 10_000) in (GONE, MESSAGE, LATER, US)
