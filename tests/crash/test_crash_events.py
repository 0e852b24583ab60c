"""Rows 1 to 5 of the places a process can die: from the request to the jobs, and messages that come more than once."""

import asyncio
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from shared.channel import Channel
from tests.fakes.amqp import amqp_peer
from tests.fakes.fcm import Wait
from tests.fakes.installation import SERVICES
from tests.fakes.product import eventually
from tests.fakes.wired import ONCE, ONE_EACH, SENDERS, Wired


async def cut_off(posting: "asyncio.Task[httpx.Response]") -> None:
    """AssertionError when the request was answered after all."""
    with pytest.raises(httpx.TransportError):
        await posting


async def test_row_1_ingest_dies_before_the_commit_and_the_clients_retry_is_the_first(wired: Wired) -> None:
    ada, wire = await wired.somebody("ada"), wired.wires.ingest_to_postgres
    wire.freeze_at(b"key-of-ada")
    posting = asyncio.create_task(ada.post(key="key-of-ada"))
    await wire.has_frozen()
    wired.process("ingest").kill()
    await cut_off(posting)
    await wire.renew()
    async with wired.database.hot() as pg:
        assert await pg.fetchval("SELECT count(*) FROM events WHERE idempotency_key = 'key-of-ada'") == 0
    await wired.start("ingest")
    again = await ada.post(key="key-of-ada")
    assert (again.status_code, again.headers.get("Idempotent-Replayed")) == (202, None)
    assert await wired.sent(again.json()["id"]) == ONCE
    assert await ada.got() == ONE_EACH
    await wired.harmed_none_but("ingest")


async def test_row_1_the_insert_of_a_killed_ingest_ends_with_it_and_the_retry_is_the_first(wired: Wired) -> None:
    bea = await wired.somebody("bea")
    async with wired.uncounted("event", "QUEUED"):
        posting = asyncio.create_task(bea.post(key="key-of-bea"))
        await wired.hanging("ingest")
        wired.process("ingest").kill()
        await cut_off(posting)
        await wired.hanging("ingest", 0)  # Postgres has seen that nobody waits for it any more
        await wired.start("ingest")
        retrying = asyncio.create_task(bea.post(key="key-of-bea"))
        await wired.hanging("ingest")
    again = await retrying
    assert (again.status_code, again.headers.get("Idempotent-Replayed")) == (202, None)
    async with wired.database.hot() as pg:
        assert await pg.fetchval("SELECT count(*) FROM events WHERE idempotency_key = 'key-of-bea'") == 1
    assert await wired.sent(again.json()["id"]) == ONCE
    assert await bea.got() == ONE_EACH
    await wired.harmed_none_but("ingest")


async def test_row_2_ingest_dies_after_the_commit_and_before_the_publish(wired: Wired) -> None:
    cleo, wire = await wired.somebody("cleo"), wired.wires.ingest_to_broker
    wire.freeze()
    event_id = await cleo.accepted()
    wired.process("ingest").kill()
    # What it had said to the broker by then never arrives.
    await wire.renew()
    assert await wired.read(event_id, "status") == "QUEUED"
    wired.process("router").freeze()
    await wired.start("ingest")
    await wired.until_oldest_queued(lambda seconds: seconds > 0)
    wired.process("router").thaw()
    assert await wired.sent(event_id) == ONCE
    assert await wired.read(event_id, "announce_count") >= 1
    assert await cleo.got() == ONE_EACH
    await wired.until_oldest_queued(lambda seconds: seconds == 0)
    await wired.harmed_none_but("ingest")


async def test_row_3_ingest_dies_before_the_confirm_and_two_messages_route_the_event_once(wired: Wired) -> None:
    dora = await wired.somebody("dora")
    async with amqp_peer(wired.urls.broker) as broker:
        await wired.wires.router_to_broker.cut()
        wired.wires.ingest_to_broker.freeze_answers()
        event_id = await dora.accepted()
        await broker.until_waiting(1)
        wired.process("ingest").kill()
        await wired.wires.ingest_to_broker.renew()
        assert (await wired.read(event_id, "status"), await wired.read(event_id, "announce_count")) == ("QUEUED", 0)
        await wired.start("ingest")
        await broker.until_waiting(2)
        await wired.wires.router_to_broker.mend()
        assert await wired.sent(event_id) == ONCE
        await broker.until_taken()
    assert await dora.got() == ONE_EACH
    await wired.harmed_none_but("ingest")


async def test_row_4_router_dies_half_way_through_routing_and_another_begins_anew(wired: Wired) -> None:
    fay = await wired.somebody("fay")
    async with wired.uncounted("push", "PENDING"):
        event_id = await fay.accepted()
        await wired.hanging("router")
        wired.process("router").kill()
        assert (await wired.read(event_id, "status"), await wired.job_ids(event_id)) == ("QUEUED", [])
    await wired.start("router")
    assert await wired.sent(event_id) == ONCE
    assert await wired.read(event_id, "route_tries") >= 1
    assert await fay.got() == ONE_EACH
    await wired.harmed_none_but("router")


async def test_row_5_router_dies_after_routing_and_before_the_wake_and_polls_find_the_jobs(wired: Wired) -> None:
    gus, wire = await wired.somebody("gus"), wired.wires.router_to_broker
    wakes = await wired.wakes_received()
    for sender in SENDERS:
        wired.process(sender).freeze()
    wire.freeze_at(b"waybill.wake.")
    event_id = await gus.accepted()
    await wire.has_frozen()
    wired.process("router").kill()
    await wire.renew()
    assert await wired.read(event_id, "status") == "ROUTED"
    assert len(await wired.job_ids(event_id, "PENDING")) == len(SENDERS)
    for sender in SENDERS:
        wired.process(sender).thaw()
    assert await wired.sent(event_id) == ONCE
    assert await gus.got() == ONE_EACH
    assert await wired.wakes_received() == wakes
    await wired.start("router")
    await wired.harmed_none_but("router")


async def test_one_event_posted_announced_and_woken_for_many_times_is_sent_once_by_several_replicas(
    wired: Wired,
) -> None:
    fcm = wired.installation.fcm
    hal, ida = await wired.somebody("hal"), await wired.somebody("ida")
    await wired.start("router-2", "email-2", "push-2", "inapp-2")
    async with amqp_peer(wired.urls.broker) as broker:
        async with wired.uncounted("push", "PENDING"):
            first, second = await asyncio.gather(hal.post(key="key-of-hal"), hal.post(key="key-of-hal"))
            assert (first.status_code, second.status_code) == (202, 202)
            assert first.json()["id"] == second.json()["id"]
            event_id = first.json()["id"]
            await wired.hanging("router")
            await broker.announce(event_id, times=3)
            # None of them is done with early: they wait for the one that is inserting.
            await wired.hanging("router", 4)
            await wired.swept_past(event_id)
            assert await wired.read(event_id, "announce_count") == 0
            # Its push is held up from now on, so that it is woken for in the middle of the attempt, too.
            answering = asyncio.Event()
            fcm.always(hal.phone, Wait(answering))
        scope_id = await wired.read(event_id, "scope_id")

        async def wake_all() -> None:
            await asyncio.gather(*(broker.wake(channel, [scope_id], times=50) for channel in map(Channel, SENDERS)))

        async def ringing() -> bool:
            return fcm.posts_to(hal.phone) > 0

        await eventually(ringing)
        await wake_all()
        answering.set()
        assert await wired.sent(event_id) == ONCE
        job_ids = await wired.job_ids(event_id)
        await broker.announce(event_id, times=3)
        await wake_all()
        # What was announced before this one is taken before it.
        await wired.sent(await ida.accepted())
    assert await wired.job_ids(event_id) == job_ids
    assert await wired.sent(event_id) == ONCE
    assert await hal.got() == ONE_EACH
    await wired.harmed_none_but()


async def test_a_scheduled_event_outlives_every_process_and_is_sent_once_and_not_before_its_time(wired: Wired) -> None:
    joan, kim = await wired.somebody("joan"), await wired.somebody("kim")
    send_at = datetime.now(UTC) + timedelta(seconds=15)
    event_id = await joan.accepted(send_at=send_at.isoformat())
    taken_back = await kim.accepted(send_at=send_at.isoformat())
    answer = await wired.installation.client.post(f"/api/v1/events/{taken_back}/cancel")
    assert (answer.status_code, answer.json()["status"]) == (200, "CANCELLED")
    for name in SERVICES:
        wired.process(name).kill()
    assert await wired.read(event_id, "status") == "SCHEDULED"
    await wired.start(*SERVICES)
    assert await wired.sent(event_id) == ONCE
    jobs = (await wired.installation.event(event_id))["jobs"]
    assert all(datetime.fromisoformat(job["attempts"][0]["started_at"]) >= send_at for job in jobs)
    assert await joan.got() == ONE_EACH
    # The other would have come due at the same time.
    assert await wired.read(taken_back, "status") == "CANCELLED"
    assert await kim.got() == dict.fromkeys(ONE_EACH, 0)
    await wired.harmed_none_but(*SERVICES)
