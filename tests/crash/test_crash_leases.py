"""What a worker had in its hands when it ended: free when its lease is over after kill -9, at once after SIGTERM."""

from datetime import datetime, timedelta
from typing import Any

from shared.ids import parse_event_id
from tests.fakes.product import eventually
from tests.fakes.smtp_script import Stall
from tests.fakes.wired import Wired

SETTINGS = {
    # Longer than a stop takes, three fifths of it, too: what is cut off is cut off by the stop.
    "EMAIL_ATTEMPT_TIMEOUT": "12s",
    "EMAIL_LEASE": "26s",
    "LEASE_MARGIN": "1s",
    # As in production: an idle process looks often enough all the same.
    "POLL_IDLE": "5s",
}
SOON = timedelta(seconds=2)
ONE_MAIL = {"email": 1, "push": 1, "inapp": 1}


async def mail_row(wired: Wired, event_id: str) -> dict[str, Any]:
    async with wired.database.hot() as pg:
        row = await pg.fetchrow(
            "SELECT * FROM outgoing WHERE event_id = $1 AND channel = 'email'", parse_event_id(event_id)
        )
    return dict(row or {})


async def sent_at(wired: Wired, job_id: int) -> datetime:
    async with wired.database.hot() as pg:
        at: datetime = await pg.fetchval(
            "SELECT started_at FROM attempts WHERE job_id = $1 AND verdict = 'delivered'", job_id
        )
    return at


async def held_by_the_first_of_two(wired: Wired, event_id: str) -> dict[str, Any]:
    """The mail's row while the first process has it in hand, and the relay says nothing."""

    async def dialogue_has_begun() -> bool:
        return "MAIL" in [verb for _, verb in wired.installation.sink.commands]

    await eventually(dialogue_has_begun)
    return await mail_row(wired, event_id)


async def two_processes_of_which_the_first_is_awake(wired: Wired) -> None:
    wired.installation.sink.commands.clear()
    wired.installation.sink.script.always("mail", Stall())
    await wired.start("email-2")
    wired.process("email-2").freeze()


async def test_after_kill_9_a_job_goes_out_again_within_two_seconds_of_its_lease(wired: Wired) -> None:
    una = await wired.somebody("una")
    await two_processes_of_which_the_first_is_awake(wired)
    event_id = await una.accepted()
    held = await held_by_the_first_of_two(wired, event_id)
    wired.process("email").kill()
    wired.installation.sink.script.forget()
    wired.process("email-2").thaw()
    attempts = await wired.sent(event_id)
    assert attempts["email"] == [("lost", False), ("delivered", True)]
    assert held["claimed_until"] < await sent_at(wired, held["job_id"]) < held["claimed_until"] + SOON
    assert await una.got() == ONE_MAIL
    await wired.harmed_none_but("email")


async def test_after_sigterm_a_job_goes_out_at_once_and_nothing_was_counted(wired: Wired) -> None:
    val = await wired.somebody("val")
    await two_processes_of_which_the_first_is_awake(wired)
    event_id = await val.accepted()
    held = await held_by_the_first_of_two(wired, event_id)
    assert await wired.process("email").stop() == 0
    wired.installation.sink.script.forget()
    wired.process("email-2").thaw()
    attempts = await wired.sent(event_id)
    assert attempts["email"] == [("delivered", False)]
    assert await sent_at(wired, held["job_id"]) < held["claimed_until"]
    row = await mail_row(wired, event_id)
    assert (row["attempts"], row["lost"], row["unanswered"], row["unknowns"]) == (1, 0, 0, 0)
    assert await val.got() == ONE_MAIL
    await wired.harmed_none_but("email")
