"""The claim loop with a scripted provider: what it sends, how often, and how it stops."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from shared import metrics
from shared.channel import Channel
from shared.delivery.provider import Parcel
from shared.delivery.worker import Worker
from shared.ids import ScopeId
from shared.store.database import Database, HotConnection
from shared.tenant import Mode
from shared.verdict import Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict
from tests.factories import claim_jobs, create_jobs, end_leases, new_job, until
from tests.fakes.provider import ScriptedProvider, never, never_after_handover
from tests.fakes.tenants import OneTenant
from tests.fakes.working import worker_settings, working


async def states(database: Database) -> list[tuple[str, str]]:
    async with database.hot() as pg:
        rows = await pg.fetch("SELECT status, reason FROM outgoing ORDER BY job_id")
    return [(row["status"], row["reason"]) for row in rows]


async def until_settled(database: Database, count: int) -> None:
    async with asyncio.timeout(20):
        while True:
            async with database.hot() as pg:
                done = await pg.fetchval("SELECT count(*) FROM outgoing WHERE reported_seq > 0")
            if done == count:
                return
            await asyncio.sleep(0.02)


async def test_every_due_job_is_sent_once_within_its_slots(database: Database) -> None:
    async def slowly(_parcel: Parcel) -> Verdict:
        await asyncio.sleep(0.01)
        return Delivered()

    await create_jobs(database, [new_job(scope_id=n % 3 + 1) for n in range(100)])
    provider = ScriptedProvider(slowly)
    async with working(database, provider, slots=7):
        await until_settled(database, 100)
    assert await states(database) == [("SENT", "")] * 100
    assert len({parcel.job_id for parcel in provider.sent}) == len(provider.sent) == 100
    assert 1 < provider.most_at_once <= 7


async def test_a_ring_starts_a_job_without_waiting_for_the_poll(database: Database) -> None:
    provider = ScriptedProvider()
    async with working(database, provider, poll_idle=timedelta(hours=1)) as (worker, _):
        async with asyncio.timeout(10):
            while not worker.idle:
                await asyncio.sleep(0.01)
        await create_jobs(database, [new_job(scope_id=4)])
        worker.bell.ring(frozenset({ScopeId(4)}))
        await until(lambda: provider.sent)


@pytest.mark.parametrize(
    ("verdict", "state", "attempts"),
    [
        (Delivered("id-1"), ("SENT", ""), 1),
        (Rejected(), ("FAILED", "rejected"), 1),
        (Deferred(), ("PENDING", ""), 1),
        (NoVerdict(handed_over=False), ("PENDING", ""), 0),
        (NoVerdict(handed_over=True), ("PENDING", ""), 0),
        (SenderBlocked("relay"), ("PENDING", ""), 0),
    ],
)
async def test_each_verdict_has_its_effect(
    database: Database, verdict: Verdict, state: tuple[str, str], attempts: int
) -> None:
    async def answer(_parcel: Parcel) -> Verdict:
        return verdict

    await create_jobs(database, [new_job()])
    async with working(database, ScriptedProvider(answer)):
        await until_settled(database, 1)
    assert await states(database) == [state]
    async with database.hot() as pg:
        assert await pg.fetchval("SELECT attempts FROM outgoing") == attempts
        assert await pg.fetchval("SELECT count(*) FROM attempts WHERE applied") == 1


async def test_hold_fails_a_job_whose_outcome_is_unknown(database: Database) -> None:
    await create_jobs(database, [new_job(on_unknown="hold")])
    async with working(database, ScriptedProvider(never_after_handover), attempt_timeout=timedelta(milliseconds=100)):
        await until_settled(database, 1)
    assert await states(database) == [("FAILED", "unknown_outcome")]


async def test_a_silent_provider_is_given_up_before_the_lease_ends(database: Database) -> None:
    await create_jobs(database, [new_job()])
    async with working(database, ScriptedProvider(never), attempt_timeout=timedelta(milliseconds=100)):
        await until_settled(database, 1)
    async with database.hot() as pg:
        row = await pg.fetchrow("SELECT verdict, reason, code FROM attempts")
    assert row is not None
    assert tuple(row) == ("no_verdict", "before_handover", "attempt_timeout")


async def test_a_provider_that_raises_costs_its_own_job_only(database: Database) -> None:
    async def explode(parcel: Parcel) -> Verdict:
        if parcel.content.subject == "bad":  # type: ignore[union-attr]
            raise RuntimeError("no such luck")
        return Delivered()

    await create_jobs(database, [new_job(subject=subject) for subject in ("good", "bad", "good")])
    async with working(database, ScriptedProvider(explode)):
        await until_settled(database, 3)
    assert await states(database) == [("SENT", ""), ("PENDING", ""), ("SENT", "")]


async def test_a_job_that_killed_four_workers_is_not_sent(database: Database) -> None:
    await create_jobs(database, [new_job()])
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET claim_seq = 4, lost = 3")
    provider = ScriptedProvider()
    async with working(database, provider):
        async with asyncio.timeout(20):
            while await states(database) == [("PENDING", "")]:
                await asyncio.sleep(0.02)
    assert await states(database) == [("FAILED", "worker_lost")]
    assert provider.sent == []


async def test_a_resend_after_a_lost_claim_is_flagged(database: Database) -> None:
    await create_jobs(database, [new_job()])
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET claim_seq = 1")
    await end_leases(database)
    async with working(database, ScriptedProvider()):
        await until_settled(database, 1)
    async with database.hot() as pg:
        rows = await pg.fetch("SELECT claim_seq, verdict, possible_duplicate FROM attempts ORDER BY 1")
    assert [tuple(row) for row in rows] == [(1, "lost", False), (2, "delivered", True)]


async def test_a_stop_finishes_what_is_in_flight_and_loses_nothing(database: Database) -> None:
    going = asyncio.Event()

    async def wait_for_it(_parcel: Parcel) -> Verdict:
        await going.wait()
        return Delivered()

    await create_jobs(database, [new_job() for _ in range(5)])
    provider = ScriptedProvider(wait_for_it)
    async with working(database, provider, slots=4) as (_, stop):  # one is kept for another scope
        await until(lambda: len(provider.sent) == 3)
        stop()
        going.set()
    found = await states(database)
    assert found.count(("SENT", "")) == 3
    assert found.count(("PENDING", "")) == 2
    async with database.hot() as pg:
        assert await pg.fetchval("SELECT count(*) FROM outgoing WHERE claim_seq > reported_seq") == 0


async def test_an_attempt_that_cannot_be_recorded_is_not_sent_again(database: Database) -> None:
    await create_jobs(database, [new_job(), new_job()])
    async with database.hot() as pg:
        first = await pg.fetchval("SELECT min(job_id) FROM outgoing")
        await pg.execute(f"ALTER TABLE attempts ADD CONSTRAINT broken CHECK (job_id <> {first}) NOT VALID")
    provider = ScriptedProvider()
    async with working(database, provider):
        await until_settled(database, 2)
    assert await states(database) == [("SENT", "")] * 2
    assert len(provider.sent) == 2


@pytest.mark.parametrize(
    ("address", "state"),
    [
        ("delivered@simulator.waybill.test", ("SENT", "")),
        ("bounce@simulator.waybill.test", ("FAILED", "rejected")),
        ("defer@simulator.waybill.test", ("PENDING", "")),
        ("timeout-after-data@simulator.waybill.test", ("PENDING", "")),
        ("blocked@simulator.waybill.test", ("PENDING", "")),
        ("somebody@example.com", ("SENT", "")),
    ],
)
async def test_the_test_half_of_a_tenant_reaches_nobody(
    database: Database, address: str, state: tuple[str, str]
) -> None:
    await create_jobs(database, [new_job(to_address=address)])
    provider = ScriptedProvider()
    async with working(database, provider, Mode.TEST):
        await until_settled(database, 1)
    assert await states(database) == [state]
    assert provider.sent == []
    async with database.hot() as pg:
        assert await pg.fetchval("SELECT provider FROM attempts") == "simulator"


async def test_jobs_that_may_have_killed_two_workers_are_held_one_at_a_time(database: Database) -> None:
    suspects = await create_jobs(database, [new_job() for _ in range(4)])
    ids = {job.job_id for job in suspects}
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET lost = 2, claim_seq = 2, reported_seq = 2")
    await create_jobs(database, [new_job() for _ in range(20)])
    held: set[int] = set()
    most_held = 0

    async def hold(parcel: Parcel) -> Verdict:
        nonlocal most_held
        held.add(parcel.job_id)
        most_held = max(most_held, len(held & ids))
        await asyncio.sleep(0.05)
        held.discard(parcel.job_id)
        return Delivered()

    provider = ScriptedProvider(hold)
    async with working(database, provider):
        async with asyncio.timeout(20), database.hot() as pg:
            while await pg.fetchval("SELECT count(*) FROM outgoing WHERE status = 'SENT'") < 24:
                await asyncio.sleep(0.02)
    assert most_held == 1
    assert {parcel.job_id for parcel in provider.sent if parcel.possible_duplicate} == ids


async def test_a_job_whose_worker_died_is_held_where_twice_is_worse_than_never(database: Database) -> None:
    for on_unknown in ("hold", "resend"):
        await create_jobs(database, [new_job(on_unknown=on_unknown)])
    await claim_jobs(database)
    await end_leases(database)
    provider = ScriptedProvider()
    async with working(database, provider):
        await until_settled(database, 2)
    assert await states(database) == [("FAILED", "unknown_outcome"), ("SENT", "")]
    assert [parcel.possible_duplicate for parcel in provider.sent] == [True]


class FailingOnce(Database):
    """A pool whose next use fails as nothing ever should."""

    due = False

    @asynccontextmanager
    async def hot(self, within: timedelta | None = None) -> AsyncIterator[HotConnection]:
        """The driver's connection, but for once."""
        if self.due:
            self.due = False
            raise RuntimeError("something nobody thought of")
        async with super().hot(within) as pg:
            yield pg


async def test_a_worker_whose_writer_broke_ends_so_that_it_is_started_anew(
    database_url: str, database: Database
) -> None:
    failing = FailingOnce(database_url)

    async def last_before_it_breaks(_parcel: Parcel) -> Verdict:
        failing.due = True
        return Delivered()

    await create_jobs(database, [new_job()])
    worker = Worker(worker_settings(), failing, OneTenant(), ScriptedProvider(last_before_it_breaks))
    running = asyncio.create_task(worker.run(asyncio.Event()))
    await until(running.done, 20)
    with pytest.raises(RuntimeError, match="nobody thought of"):
        running.result()
    # What it had not written down is found out by whoever comes next.
    await end_leases(database)
    async with working(database, ScriptedProvider()):
        await until_settled(database, 1)
    assert await states(database) == [("SENT", "")]
    await failing.close()


async def test_metrics_show_each_attempt_once(database: Database) -> None:
    async def by_number(parcel: Parcel) -> Verdict:
        return Delivered() if parcel.attempt == 1 and parcel.job_id % 2 else Deferred()

    def counted(verdict: str) -> float:
        return float(metrics.attempts.labels(Channel.EMAIL, verdict)._value.get())

    before = {verdict: counted(verdict) for verdict in ("delivered", "deferred")}
    await create_jobs(database, [new_job() for _ in range(10)])
    async with working(database, ScriptedProvider(by_number)):
        await until_settled(database, 10)
    assert {verdict: counted(verdict) - count for verdict, count in before.items()} == {"delivered": 5, "deferred": 5}
