"""Recipients whose targets are made to fail: they stop themselves, and nobody else's messages.

Waits after a refusal or silence are long here, so that whatever is held once stays held.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from datetime import timedelta

import msgspec
import pytest

from services.push.connections import ALL_TAKEN, Connections, NoReply
from services.push.roads import AT_ONCE, NO_TURN
from shared.delivery.provider import Folded
from shared.delivery.witnesses import ENOUGH
from shared.endpoint import EndpointRules, Pair
from shared.ids import ScopeId
from shared.store.database import Database
from shared.store.pauses import Pause, read_pauses
from shared.store.targets import register
from shared.verdict import NoVerdict
from tests.factories import until
from tests.fakes.fcm import OTHER_PROJECTS_TOKEN, UNAVAILABLE, Act, Drop, Hang, Say
from tests.fakes.gates import ListeningGate
from tests.fakes.product import eventually
from tests.fakes.pushing import Outcome, Pushing, push_job, pushing_on, service
from tests.fakes.rigs import WebPushRig
from tests.fakes.tenants import TenantEach
from tests.fakes.webpush import WRONG_KEY

LONG = timedelta(minutes=10)
TARGETS = 8
"""More than the silences that open a breaker."""
SENT = Outcome("SENT", "", 1, 0, 0)
ELSEWHERE = ScopeId(2)
"""Another tenant's half."""
NO_KEY = Say(401, b'{"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "missing credential"}}')
DOWN = Say(503)


@pytest.fixture
async def pushing(database: Database) -> AsyncIterator[Pushing]:
    async with pushing_on(database) as ready:
        await ready.browser("bob's")
        await ready.browser("eve's", recipient_id="eve", scope_id=ELSEWHERE)
        await ready.phone("bob's phone")
        await ready.phone("eve's phone", recipient_id="eve", scope_id=ELSEWHERE)
        yield ready


async def make_hostile(pushing: Pushing, kind: str, act: Act, count: int = 1, targets: int = TARGETS) -> list[str]:
    """So many recipients, each with so many targets that ``act``; their names."""
    names = [f"mallory-{number}" for number in range(count)]
    for name in names:
        made = [f"{name}-{number}" for number in range(targets)]
        await (pushing.phone if kind == "fcm" else pushing.browser)(*made, recipient_id=name)
        for one in made:
            pushing.peer.always(one, act)
            pushing.web.always(one, act)
    return names


async def standing(database: Database) -> list[Pause]:
    async with database.hot() as pg:
        return await read_pauses(pg)


async def victims_are_served(pushing: Pushing, before: int) -> None:
    """Bob, and eve of another tenant, get their messages at the first claim: they were not held even once."""
    await pushing.post(push_job(), push_job(recipient_id="eve", scope_id=ELSEWHERE), push_job())
    assert (await pushing.until_settled(before + 3))[-3:] == [SENT] * 3


REFUSALS = [("webpush", WRONG_KEY, 1), ("webpush", NO_KEY, ENOUGH - 1), ("fcm", OTHER_PROJECTS_TOKEN, ENOUGH - 1)]


@pytest.mark.parametrize(("kind", "act", "count"), REFUSALS)
async def test_targets_that_refuse_us_pause_nobody_but_their_owners(
    pushing: Pushing, database: Database, kind: str, act: Act, count: int
) -> None:
    names = await make_hostile(pushing, kind, act, count)
    async with service(pushing, tenants=TenantEach(), unanswered_step=LONG):
        await pushing.post(*(push_job(recipient_id=name) for name in names))
        assert {one.status for one in await pushing.until_settled(count)} == {"PENDING"}
        (pause,) = await standing(database)
        assert not pause.holds_all
        await victims_are_served(pushing, count)
        # Bob got through, so that others begin a new row; another message to each of them changes nothing.
        await pushing.post(*(push_job(recipient_id=name) for name in names))
        await pushing.until_settled(2 * count + 3)
        await victims_are_served(pushing, 2 * count + 3)
    for name in names:
        assert len(await pushing.tokens(name)) == TARGETS


async def test_a_message_that_nobody_takes_ends_with_its_time(pushing: Pushing, database: Database) -> None:
    (name,) = await make_hostile(pushing, "webpush", WRONG_KEY)
    async with service(pushing, tenants=TenantEach(), unanswered_step=timedelta(seconds=1)):
        await pushing.post(push_job(recipient_id=name, expires_in=timedelta(seconds=4)))

        async def expired() -> bool:
            await pushing.make_due()
            return [one.reason for one in await pushing.outcomes()] == ["expired"]

        await eventually(expired)
    assert len(await pushing.tokens(name)) == TARGETS


SILENCES = [("webpush", Drop(), 1), ("webpush", DOWN, ENOUGH - 1), ("fcm", UNAVAILABLE, ENOUGH - 1)]


@pytest.mark.parametrize(("kind", "act", "count"), SILENCES)
async def test_targets_that_never_answer_stop_nobody_but_their_owners(
    pushing: Pushing, kind: str, act: Act, count: int
) -> None:
    names = await make_hostile(pushing, kind, act, count)
    async with service(pushing, tenants=TenantEach(), unanswered_step=LONG):
        await pushing.post(*(push_job(recipient_id=name) for name in names))
        assert {one.status for one in await pushing.until_settled(count)} == {"PENDING"}
        await victims_are_served(pushing, count)


async def test_who_has_targets_that_hang_is_left_alone_and_holds_no_slots(pushing: Pushing) -> None:
    (name,) = await make_hostile(pushing, "webpush", Hang())
    quick = service(
        pushing,
        tenants=TenantEach(),
        unanswered_step=LONG,
        slots=4,
        attempt_timeout=timedelta(seconds=2),
        lease=timedelta(seconds=9),
    )
    async with quick:
        await pushing.post(push_job(recipient_id=name))
        await pushing.until_settled()
        posts = len(pushing.web.posts)
        await pushing.post(*(push_job(recipient_id=name) for _ in range(12)))
        await victims_are_served(pushing, 13)
        # Two seconds after the first one another may try: twelve may not.
        assert len(pushing.web.posts) <= posts + TARGETS + 3
    assert len(await pushing.tokens(name)) == TARGETS


async def test_targets_that_hang_leave_connections_for_everybody_else(pushing: Pushing) -> None:
    (name,) = await make_hostile(pushing, "webpush", Hang())
    # Ten connections, of which half may go to one host.
    async with service(pushing, tenants=TenantEach(), unanswered_step=LONG, slots=5):
        await pushing.post(push_job(recipient_id=name))
        await until(lambda: len(pushing.web.posts) >= AT_ONCE)
        await pushing.post(push_job(), push_job(recipient_id="eve", scope_id=ELSEWHERE))
        assert (await pushing.until_settled(2))[1:] == [SENT] * 2
        assert len(pushing.web.posts) == AT_ONCE + 2


@pytest.mark.parametrize(("kind", "act"), [("webpush", NO_KEY), ("fcm", OTHER_PROJECTS_TOKEN)])
async def test_where_many_pause_everybody_one_of_the_others_tries_first_and_ends_it(
    pushing: Pushing, database: Database, kind: str, act: Act
) -> None:
    names = await make_hostile(pushing, kind, act, ENOUGH, targets=1)
    async with service(pushing, tenants=TenantEach(), unanswered_step=timedelta(seconds=2)):
        await pushing.post(*(push_job(recipient_id=name) for name in names))
        await pushing.until_settled(ENOUGH)
        (pause,) = await standing(database)
        assert pause.holds_all
        await pushing.post(push_job())

        async def sent() -> bool:
            return (await pushing.outcomes())[-1] == SENT

        await eventually(sent)
        assert not any(pause.holds_all for pause in await standing(database))
    posts = pushing.peer.posts if kind == "fcm" else pushing.web.posts
    assert posts[ENOUGH].startswith("bob's")


async def test_a_key_that_is_wrong_for_everybody_is_found_out_by_the_first_few(
    pushing: Pushing, database: Database
) -> None:
    names = await make_hostile(pushing, "webpush", WRONG_KEY, 2 * ENOUGH, targets=1)
    async with service(pushing, tenants=TenantEach(), unanswered_step=LONG, slots=2):
        await pushing.post(*(push_job(recipient_id=name) for name in names))

        async def found_out() -> bool:
            return any(pause.holds_all for pause in await standing(database))

        await eventually(found_out)
        await pushing.until_settled(2 * ENOUGH)
    assert ENOUGH <= len(pushing.web.posts) <= ENOUGH + 2


@pytest.fixture
def silent_ports() -> Iterator[list[int]]:
    """As many push services as a recipient's browsers are posted to at once, that take connections and say nothing."""
    with ExitStack() as stack:
        bound = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(AT_ONCE)]
        yield [one.getsockname()[1] for one in bound]


async def test_a_browser_whose_turn_never_came_says_nothing_of_its_host(
    pushing: Pushing, silent_ports: list[int]
) -> None:
    trusted = {Pair("127.0.0.1", port) for port in (*silent_ports, pushing.web.port)}
    pushing.web.rules = EndpointRules(trusted=frozenset(trusted))
    keys = pushing.web.subscribe("mallory's").keys
    for port in (*silent_ports, pushing.web.port):
        async with pushing.database.begin() as connection:
            await register(
                connection, ScopeId(1), "mallory", "webpush", f"http://127.0.0.1:{port}/push/mallory's", keys=keys
            )
    rig, gate = WebPushRig(pushing, timedelta(seconds=2)), ListeningGate()
    outcome = await rig.provider.send(msgspec.structs.replace(rig.parcels("mallory"), gate=gate))
    await rig.provider.close()
    assert isinstance(outcome, Folded)
    assert [one.verdict.code for one in outcome.results if isinstance(one.verdict, NoVerdict)][-1] == NO_TURN
    assert {circuit for circuit, _ in gate.told_of} == {f"webpush 127.0.0.1:{port}" for port in silent_ports}


async def test_who_finds_all_connections_taken_learns_nothing_of_the_host(pushing: Pushing) -> None:
    pushing.web.subscribe("hangs")
    pushing.web.always("hangs", Hang())
    url, connections = f"{pushing.web.origin}/push/hangs", Connections(1, 2.0)
    first = asyncio.create_task(connections.post(url, b"", {}, lambda: None))
    await until(lambda: pushing.web.posts)
    with pytest.raises(NoReply) as second:
        await connections.post(url, b"", {}, lambda: None)
    with pytest.raises(NoReply) as hung:
        await first
    await connections.close()
    assert (second.value.code, second.value.connected) == (ALL_TAKEN, False)
    assert (hung.value.code, hung.value.connected) == ("timeout", True)
