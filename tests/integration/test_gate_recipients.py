"""The gate where recipients choose their targets: who is held by what somebody else met, in this process and others."""

from datetime import timedelta

import pytest

from shared.channel import Channel
from shared.delivery.gate import Gate
from shared.delivery.pauses import MOST_DOUBTED, Pauses
from shared.delivery.witnesses import ENOUGH, Recipient
from shared.ids import ScopeId, TenantId
from shared.store.database import Database
from shared.store.pauses import Pause, lift_of_sender, read_pauses
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict

STEP = timedelta(minutes=1)
TENANT = TenantId(1)
HOST = "webpush push.example"
REFUSED = SenderBlocked("sender", "HTTP 401", "who are you?")
DOWN = NoVerdict(handed_over=False, code="HTTP 503", refused=True)


class Process:
    """The gate of one process, for one tenant."""

    def __init__(self, database: Database) -> None:
        self.pauses = Pauses(database, Channel.PUSH, STEP, STEP)
        self.gate = Gate(self.pauses, STEP, STEP)

    async def hears(self, name: str, verdict: Verdict, circuit: str = HOST, unanswered: int = 0) -> Verdict:
        """What is made of a verdict on somebody's target."""
        return await self.gate.told(circuit, TENANT, verdict, unanswered, somebody(name))

    def holds(self, name: str) -> bool:
        """Whether a job for them is held."""
        return self.gate.held(HOST, TENANT, somebody(name)) is not None


def somebody(name: str) -> Recipient:
    return ScopeId(1), name


async def standing(database: Database) -> list[Pause]:
    async with database.hot() as pg:
        return await read_pauses(pg)


@pytest.fixture
async def here(database: Database) -> Process:
    return Process(database)


@pytest.fixture
async def elsewhere(database: Database) -> Process:
    return Process(database)


async def test_a_refusal_is_stored_and_holds_nobody_else_in_any_process(
    here: Process, elsewhere: Process, database: Database
) -> None:
    await here.hears("mallory", REFUSED)
    await elsewhere.pauses.look()
    (pause,) = await standing(database)
    assert (pause.key.name, pause.code, pause.holds_all) == (HOST, "HTTP 401", False)
    assert here.holds("mallory") and not here.holds("bob")
    assert not elsewhere.holds("bob")
    assert here.gate.room(frozenset({HOST}), TENANT) > 1


async def test_enough_in_a_row_hold_everybody_in_every_process(
    here: Process, elsewhere: Process, database: Database
) -> None:
    for number in range(ENOUGH):
        assert not here.holds("bob")
        await here.hears(f"somebody-{number}", REFUSED)
    await elsewhere.pauses.look()
    assert here.holds("bob") and elsewhere.holds("bob")
    assert here.gate.room(frozenset({HOST}), TENANT) == 0
    # One more word from those who are held already makes nothing longer.
    (before,) = await standing(database)
    await here.hears("somebody-0", REFUSED)
    (after,) = await standing(database)
    assert (after.until, after.failures) == (before.until, before.failures)


async def test_somebody_who_gets_through_begins_the_row_anew(here: Process) -> None:
    for number in range(2 * ENOUGH):
        await here.hears(f"somebody-{number}", REFUSED)
        await here.hears("bob", Delivered())
    assert not here.holds("bob")


async def test_other_credentials_begin_the_row_anew(here: Process, database: Database) -> None:
    for number in range(ENOUGH - 1):
        await here.hears(f"somebody-{number}", REFUSED)
    async with database.begin() as connection:
        await lift_of_sender(connection, TENANT, Channel.PUSH)
    await here.pauses.look()
    await here.hears("the last", REFUSED)
    assert not here.holds("bob") and not here.holds("somebody-0")


async def test_one_tenants_recipients_make_no_more_than_so_many_pauses(here: Process, database: Database) -> None:
    for number in range(MOST_DOUBTED + 5):
        await here.hears("mallory", REFUSED, f"webpush {number}.push.example")
    assert len(await standing(database)) == MOST_DOUBTED
    for number in range(ENOUGH):
        await here.hears(f"somebody-{number}", REFUSED)
    assert here.holds("bob"), "what holds all is stored all the same"


async def test_an_address_that_a_dead_service_refuses_does_not_make_it_a_living_one(here: Process) -> None:
    await here.hears("mallory", Rejected(target_dead=True, code="HTTP 404"))
    assert await here.hears("bob", DOWN, unanswered=1) == DOWN
    await here.hears("ann", Delivered())
    assert await here.hears("bob", DOWN, unanswered=1) == Deferred(None, DOWN.code, DOWN.error)
