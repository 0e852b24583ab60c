"""What `up` puts in place of Firebase: sound requests are taken and listed, others refused as Google would."""

from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest

from services.cli.sandbox.pushes import MOST_MESSAGES, PushSimulator, show_push
from shared.store.database import Database
from tests.fakes.fcm import FcmPeer, fcm_peer
from tests.fakes.pushing import CONTENT, Pushing, push_job, service
from tests.fakes.webpush import webpush_peer


@pytest.fixture
async def peer() -> AsyncIterator[FcmPeer]:
    async with fcm_peer() as running:
        yield running


async def test_what_was_taken_is_listed_newest_first(peer: FcmPeer, database: Database) -> None:
    async with webpush_peer() as web:
        pushing = Pushing(database, peer, web)
        await pushing.phone("first", "second")
        await pushing.post(push_job())
        async with service(pushing):
            await pushing.until_settled()
    listed = [show_push(push) for push in peer.newest(10)]
    assert {push.token for push in listed} == {"first", "second"}
    assert {msgspec.to_builtins(push)["channel"] for push in listed} == {"push"}
    assert {(push.title, push.body, push.data["booking_id"]) for push in listed} == {
        (CONTENT.title, CONTENT.body, "bk_42")
    }
    assert peer.newest(1) == peer.newest(10)[:1]


async def test_the_oldest_messages_make_room() -> None:
    simulator = PushSimulator()
    for number in range(MOST_MESSAGES + 3):
        await simulator.take(None, f"phone-{number}", {"token": f"phone-{number}"})  # type: ignore[arg-type]  # unused
    assert len(simulator.newest(2 * MOST_MESSAGES)) == MOST_MESSAGES
    assert simulator.newest(1)[0].token == f"phone-{MOST_MESSAGES + 2}"
    simulator._bound.close()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/projects/waybill-simulator/messages:send", {"message": {"token": "a"}}, 401),
        ("/token", {"grant_type": "jwt"}, 400),
        ("/v1/projects/other", {}, 404),
    ],
)
async def test_whoever_has_no_access_gets_none(peer: FcmPeer, path: str, body: dict[str, object], status: int) -> None:
    async with httpx.AsyncClient(base_url=peer.base_url) as client:
        assert (await client.post(path, json=body)).status_code == status
    assert peer.newest(1) == []
