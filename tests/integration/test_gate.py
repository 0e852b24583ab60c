"""What holds jobs back: an operator's pauses, a provider that refuses us, a breaker; and how each ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.channel import Channel
from shared.delivery.breaker import FAILURES_TO_OPEN
from shared.delivery.gate import Gate
from shared.delivery.pace import WorkerSettings
from shared.delivery.pauses import Pauses
from shared.delivery.provider import Parcel
from shared.delivery.worker import KnownTenants, Worker
from shared.ids import TenantId
from shared.store.database import Database
from shared.store.pauses import Pause, PauseKey, PauseKind, block, pause, read_pauses, resume
from shared.tenant import Mode
from shared.verdict import Delivered, NoVerdict, SenderBlocked, Verdict
from tests.factories import create_jobs, new_job
from tests.fakes.provider import CircuitProvider, ScriptedProvider
from tests.fakes.tenants import OneTenant, TenantEach

SECONDS = 30.0


@asynccontextmanager
async def working(
    database: Database, provider: ScriptedProvider, tenants: KnownTenants | None = None, **changes: object
) -> AsyncIterator[Worker]:
    values: dict[str, object] = {
        "channel": Channel.EMAIL,
        "name": "worker",
        "slots": 10,
        "lease": timedelta(seconds=30),
        "attempt_timeout": timedelta(seconds=5),
        "margin": timedelta(seconds=1),
        "poll_busy": timedelta(milliseconds=50),
        "poll_idle": timedelta(milliseconds=100),
        "unanswered_step": timedelta(seconds=1),
    }
    worker = Worker(WorkerSettings(**(values | changes)), database, tenants or OneTenant(), provider)  # type: ignore[arg-type]
    stop = asyncio.Event()
    running = asyncio.create_task(worker.run(stop))
    try:
        yield worker
    finally:
        stop.set()
        async with asyncio.timeout(SECONDS):
            await running


async def until_sent(database: Database, count: int) -> None:
    await until_rows(database, "status = 'SENT'", count)


async def until_rows(database: Database, condition: str, count: int) -> None:
    async with asyncio.timeout(SECONDS), database.hot(timedelta(seconds=SECONDS)) as pg:
        while await pg.fetchval(f"SELECT count(*) FROM outgoing WHERE {condition}") != count:
            await asyncio.sleep(0.02)


async def standing(database: Database) -> list[Pause]:
    async with database.hot() as pg:
        return await read_pauses(pg)


async def until_one_stands(database: Database) -> Pause:
    async with asyncio.timeout(SECONDS):
        while not (pauses := await standing(database)):
            await asyncio.sleep(0.02)
    return pauses[0]


async def paused(database: Database, key: PauseKey, until: datetime | None = None) -> None:
    async with database.hot() as pg:
        await pause(pg, key, "because", until)


async def resumed(database: Database, key: PauseKey) -> None:
    async with database.hot() as pg:
        assert await resume(pg, key)


async def counts(database: Database) -> set[tuple[int, int, int]]:
    async with database.hot() as pg:
        return {tuple(row) for row in await pg.fetch("SELECT attempts, unanswered, unknowns FROM outgoing")}


EMAIL = PauseKey(PauseKind.CHANNEL, "email")
FIRST_TENANT = PauseKey(PauseKind.TENANT, tenant_id=TenantId(1))


@pytest.mark.parametrize(
    "key", [EMAIL, FIRST_TENANT, PauseKey(PauseKind.TENANT, "email", TenantId(1))], ids=lambda key: key.kind
)
async def test_what_an_operator_paused_stays_pending_until_it_is_resumed(database: Database, key: PauseKey) -> None:
    await paused(database, key)
    await create_jobs(database, [new_job(scope_id=n % 2 + 1) for n in range(10)])
    provider = CircuitProvider()
    async with working(database, provider, TenantEach()):
        await until_sent(database, 0 if key is EMAIL else 5)
        assert {parcel.scope_id for parcel in provider.sent} == (set() if key is EMAIL else {2})
        await resumed(database, key)
        await until_sent(database, 10)
    assert len(provider.sent) == 10


async def test_a_pause_of_another_channel_or_tenant_holds_nothing(database: Database) -> None:
    await paused(database, PauseKey(PauseKind.CHANNEL, "push"))
    await paused(database, PauseKey(PauseKind.TENANT, "push", TenantId(1)))
    await paused(database, PauseKey(PauseKind.TENANT, tenant_id=TenantId(2)))
    await paused(database, PauseKey(PauseKind.EVENT_TYPE, "email", TenantId(1), "review_ready"))
    await create_jobs(database, [new_job()])
    async with working(database, CircuitProvider()):
        await until_sent(database, 1)


@pytest.mark.parametrize("end", [datetime.max.replace(tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)], ids=str)
async def test_a_pause_without_end_holds_what_it_names_and_nothing_else(database: Database, end: datetime) -> None:
    await paused(database, FIRST_TENANT, end)
    await create_jobs(database, [new_job(scope_id=n % 2 + 1) for n in range(2)])
    provider = CircuitProvider()
    async with working(database, provider, TenantEach()):
        await until_sent(database, 1)
    assert [parcel.scope_id for parcel in provider.sent] == [2]


async def test_a_pause_with_an_end_ends_by_itself(database: Database) -> None:
    await paused(database, EMAIL, datetime.now(UTC) + timedelta(seconds=2))
    await create_jobs(database, [new_job()])
    async with working(database, CircuitProvider()):
        await until_sent(database, 1)
    assert await standing(database) == []


async def test_a_paused_event_type_waits_and_the_others_do_not(database: Database) -> None:
    await paused(database, PauseKey(PauseKind.EVENT_TYPE, tenant_id=TenantId(1), name="booking_confirmed"))
    async with database.hot() as pg:
        held = await create_jobs(database, [new_job(), new_job()])
        (free,) = await create_jobs(database, [new_job()])
        await pg.execute("UPDATE content SET event_type = 'review_ready' WHERE job_id = $1", free.job_id)
    provider = CircuitProvider()
    async with working(database, provider):
        await until_sent(database, 1)
        await until_rows(database, "status = 'PENDING' AND lane = 0 AND due_at > now() + interval '30 seconds'", 2)
        assert [parcel.job_id for parcel in provider.sent] == [free.job_id]
        assert await counts(database) == {(0, 0, 0), (1, 0, 0)}
        async with database.hot() as pg:
            assert await pg.fetchval("SELECT count(*) FROM attempts WHERE job_id = $1", held[0].job_id) == 0


class Refusing:
    """Refuses us until told otherwise, then takes everything."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict: Verdict = verdict

    async def __call__(self, _parcel: Parcel) -> Verdict:
        return self.verdict


async def test_a_relay_that_refuses_us_is_paused_for_all_and_probed_by_one(database: Database) -> None:
    await create_jobs(database, [new_job(scope_id=n % 4 + 1) for n in range(200)])
    behaviour = Refusing(SenderBlocked("relay", code="554", error="5.7.1 your address is blocked"))
    one, two = CircuitProvider(behaviour), CircuitProvider(behaviour)
    async with (
        working(database, one, TenantEach(), name="one"),
        working(database, two, TenantEach(), name="two"),
    ):
        await until_rows(database, "reported_seq > 1", 1)  # somebody has probed
        (stands,) = await standing(database)
        assert stands.key == PauseKey(PauseKind.RELAY, "email", name="relay-1")
        assert (stands.code, stands.reason) == ("554", "5.7.1 your address is blocked")
        tried = len(one.sent) + len(two.sent)
        assert tried < 60, "each job has found out for itself"
        assert await counts(database) <= {(0, 0, 0), (0, 1, 0), (0, 2, 0)}
        behaviour.verdict = Delivered()
        await until_sent(database, 200)
    assert await standing(database) == []
    assert {attempts for attempts, _, _ in await counts(database)} == {1}


async def test_probes_may_be_asked_for_while_others_are_tried_for(database: Database) -> None:
    pauses = Pauses(database, Channel.EMAIL)
    async with database.hot() as pg:
        for circuit in ("one", "two"):
            await block(pg, PauseKey(PauseKind.RELAY, "email", name=circuit), "no", "535", timedelta(0), timedelta(0))
    one, two = await standing(database)
    assert not pauses.has_probe(one)
    looking = asyncio.create_task(pauses.look())
    number = two.pause_id
    while not looking.done():
        number += 1
        pauses.has_probe(replace(two, pause_id=number))
        await asyncio.sleep(0)
    await looking
    assert pauses.has_probe(one)


async def test_a_refused_sender_is_one_tenants_matter(database: Database) -> None:
    await create_jobs(database, [new_job(scope_id=n % 2 + 1) for n in range(20)])

    async def refuse_the_first(parcel: Parcel) -> Verdict:
        return SenderBlocked("sender", code="550") if parcel.scope_id == 1 else Delivered()

    async with working(database, CircuitProvider(refuse_the_first), TenantEach()):
        await until_sent(database, 10)
        stands = await until_one_stands(database)
    assert stands.key == PauseKey(PauseKind.SENDER, "email", TenantId(1), "relay-1")


async def test_a_mended_login_is_another_circuit_and_waits_for_nothing(database: Database) -> None:
    await create_jobs(database, [new_job() for _ in range(30)])
    behaviour = Refusing(SenderBlocked("relay", code="535"))

    class Mendable(CircuitProvider):
        async def learn(self, tenant: object) -> None:
            if not isinstance(behaviour.verdict, SenderBlocked):
                self.circuit = "relay-1 with another login"

    async with working(database, Mendable(behaviour), unanswered_step=timedelta(seconds=4)):
        await until_one_stands(database)
        behaviour.verdict = Delivered()
        await until_sent(database, 30)
        assert [one.key.name for one in await standing(database)] == ["relay-1"]


async def test_the_test_half_meets_no_pause_of_a_relay(database: Database) -> None:
    behaviour = Refusing(SenderBlocked("relay"))
    await create_jobs(database, [new_job()])
    async with working(database, CircuitProvider(behaviour)):
        await until_rows(database, "reported_seq > 0", 1)
    await create_jobs(database, [new_job(scope_id=2)])
    async with working(database, CircuitProvider(behaviour), OneTenant(Mode.TEST)):
        await until_rows(database, "scope_id = 2 AND status = 'SENT'", 1)


async def test_a_breaker_spares_the_jobs_and_what_tripped_it_goes_out_after_recovery(database: Database) -> None:
    await create_jobs(database, [new_job() for _ in range(100)])
    behaviour = Refusing(NoVerdict(handed_over=False, code="unreachable"))
    provider = CircuitProvider(behaviour)
    async with working(database, provider):
        async with asyncio.timeout(SECONDS):
            while len(provider.sent) < FAILURES_TO_OPEN + 1:  # what tripped it, and a probe
                await asyncio.sleep(0.02)
        assert len(provider.sent) <= FAILURES_TO_OPEN + 10, "no more than was in flight, and a probe"
        behaviour.verdict = Delivered()
        await until_sent(database, 100)
    assert {(attempts, unknowns) for attempts, _, unknowns in await counts(database)} == {(1, 0)}


async def test_a_message_that_a_working_service_keeps_refusing_is_deferred(database: Database) -> None:
    poison, *others = await create_jobs(database, [new_job() for _ in range(6)])

    async def refuse_one(parcel: Parcel) -> Verdict:
        return (
            NoVerdict(handed_over=False, code="HTTP 500", refused=True)
            if parcel.job_id == poison.job_id
            else Delivered()
        )

    async with working(database, CircuitProvider(refuse_one), unanswered_step=timedelta(seconds=2)):
        await until_sent(database, len(others))
        await until_rows(database, "status = 'PENDING' AND unanswered = 1 AND attempts = 0", 1)
        async with asyncio.timeout(SECONDS), database.hot() as pg:
            while await pg.fetchval("SELECT attempts FROM outgoing WHERE job_id = $1", poison.job_id) == 0:
                await create_jobs(database, [new_job()])
                await asyncio.sleep(0.1)
            verdicts = await pg.fetch(
                "SELECT verdict FROM attempts WHERE job_id = $1 ORDER BY claim_seq", poison.job_id
            )
    assert [row["verdict"] for row in verdicts][:2] == ["no_verdict", "deferred"]


async def test_a_delivery_survives_being_cut_off_while_its_pause_is_lifted(database: Database) -> None:
    key = PauseKey(PauseKind.RELAY, "email", name="relay-1")
    async with database.hot() as pg:
        await block(pg, key, "refused", "554", timedelta(), timedelta())
    pauses = Pauses(database, Channel.EMAIL)
    await pauses.look()
    gate = Gate(pauses, timedelta(seconds=1), timedelta(seconds=5))
    async with database.hot() as blocker, blocker.transaction():
        await blocker.execute("LOCK TABLE pauses IN ACCESS EXCLUSIVE MODE")
        telling = asyncio.create_task(gate.told("relay-1", TenantId(1), Delivered("taken"), 0))
        done, _ = await asyncio.wait({telling}, timeout=0.2)
        assert not done, "it waits for Postgres"
        telling.cancel()
        async with asyncio.timeout(SECONDS):
            assert await telling == Delivered("taken")


async def test_a_pause_that_has_ended_by_itself_cannot_be_resumed(database: Database) -> None:
    await paused(database, EMAIL, datetime.now(UTC) - timedelta(seconds=1))
    async with database.hot() as pg:
        assert not await resume(pg, EMAIL)
