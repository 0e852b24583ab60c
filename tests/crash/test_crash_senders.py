"""Rows 6 and 7 of the places a process can die, the senders, and a provider that is away while others are not."""

from typing import Any

import pytest

from tests.fakes.fcm import Hang
from tests.fakes.product import eventually
from tests.fakes.smtp_script import Stall
from tests.fakes.wired import ONE_EACH, Wired

SETTINGS = {
    "EMAIL_ATTEMPT_TIMEOUT": "4s",
    "EMAIL_LEASE": "9s",
    "PUSH_ATTEMPT_TIMEOUT": "4s",
    "PUSH_LEASE": "9s",
    "LEASE_MARGIN": "1s",
}
"""Short leases: what they guard is awaited here."""
REFUND = {
    "event_type": "refund_processed",
    "payload": {
        "booking_id": "bk_42",
        "course": "Linear algebra",
        "refund": {"amount": "25.00", "currency": "EUR"},
        "arrives_on": "2026-12-05",
    },
}
"""An event whose channels are in-app and email."""
LOST = [("lost", False), ("delivered", True)]
LOST_ONCE = {"inapp": [("delivered", False)], "email": LOST, "push": LOST}
"""What the attempts of an event say whose mail and push died with their processes."""


@pytest.fixture(scope="module", autouse=True)
async def _warm(standing: Wired) -> None:
    # A token is at its end when it is issued, so that each push can be held up before it is sent.
    standing.installation.fcm.token_seconds = 1
    # Push is ready long before it has loaded what it sends with: short attempts of others must not run out meanwhile.
    await standing.sent(await (await standing.somebody("ike")).accepted())


async def kill_email_and_push(wired: Wired) -> None:
    """Kill both, let their providers answer again, and start them again."""
    for sender in ("email", "push"):
        wired.process(sender).kill()
    wired.installation.sink.script.forget()
    wired.installation.fcm.forget()
    await wired.start("email", "push")


def repeats(message: dict[str, Any]) -> tuple[str, str, str]:
    """By what phones know that they have shown a message before."""
    return (
        message["android"]["notification"]["tag"],
        message["apns"]["headers"]["apns-collapse-id"],
        message["webpush"]["headers"]["Topic"],
    )


async def test_row_6_email_and_push_die_after_the_claim_and_before_the_send(wired: Wired) -> None:
    jan, sink, fcm = await wired.somebody("jan"), wired.installation.sink, wired.installation.fcm
    sink.script.always("mail", Stall())
    fcm.granting.clear()
    said, grants = len(sink.commands), fcm.grant_count
    event_id = await jan.accepted()

    async def both_have_begun() -> bool:
        return fcm.grant_count > grants and "MAIL" in [verb for _, verb in sink.commands[said:]]

    await eventually(both_have_begun)
    await kill_email_and_push(wired)
    assert await wired.sent(event_id) == LOST_ONCE
    assert await jan.got() == ONE_EACH
    await wired.harmed_none_but("email", "push")


async def test_row_7_email_and_push_die_after_the_provider_took_it_and_send_what_shows_as_the_same(
    wired: Wired,
) -> None:
    kim, sink, fcm = await wired.somebody("kim"), wired.installation.sink, wired.installation.fcm
    sink.script.always("eod", Stall())
    fcm.always(kim.phone, Hang(taken=True))
    event_id = await kim.accepted()

    async def both_have_taken_it() -> bool:
        return await kim.got() == ONE_EACH

    await eventually(both_have_taken_it)
    await kill_email_and_push(wired)
    assert await wired.sent(event_id) == LOST_ONCE
    assert await kim.got() == {"email": 2, "push": 2, "inapp": 1}
    assert len({mail.message_id for mail in kim.mails()}) == 1
    assert len({repeats(message) for message in fcm.rung(kim.phone)}) == 1
    await wired.harmed_none_but("email", "push")


async def test_row_7_inapp_dies_in_its_only_statement_and_there_is_one_entry(wired: Wired) -> None:
    lea = await wired.somebody("lea")
    async with wired.uncounted("inapp", "SENT"):
        event_id = await lea.accepted(**REFUND)
        await wired.hanging("inapp")
        wired.process("inapp").kill()
        assert (await lea.got())["inapp"] == 0
        await wired.start("inapp")
    assert await wired.sent(event_id) == {channel: [("delivered", False)] for channel in ("email", "inapp")}
    assert await lea.got() == {"email": 1, "push": 0, "inapp": 1}
    await wired.harmed_none_but("inapp")


async def test_a_relay_that_is_down_costs_the_mail_no_attempt_and_the_other_channels_nothing(wired: Wired) -> None:
    mia, sink = await wired.somebody("mia"), wired.installation.sink
    await sink.close()
    event_id = await mia.accepted()

    async def tried_twice() -> bool:
        return (await wired.tried(event_id, "email")).get("unanswered", 0) >= 2

    await eventually(tried_twice)
    assert await mia.got() == {"email": 0, "push": 1, "inapp": 1}
    assert (await wired.tried(event_id, "email"))["attempts"] == 0
    await sink.start()
    attempts = await wired.sent(event_id)
    *unanswered, last = attempts.pop("email")
    assert set(unanswered) == {("no_verdict", False)}
    assert last == ("delivered", False)
    assert attempts == {sender: [("delivered", False)] for sender in ("push", "inapp")}
    assert (await wired.tried(event_id, "email"))["attempts"] == 1
    assert await mia.got() == ONE_EACH
    await wired.harmed_none_but()
