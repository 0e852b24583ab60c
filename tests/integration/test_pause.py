"""`waybill pause`, `resume` and `pauses` on a real Postgres: what they name, what they wait for, what comes back."""

import asyncio
import json
import random
import signal
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest

from services.cli import pause
from services.cli.acts import operator
from services.cli.exits import CommandFailed
from services.cli.main import main
from services.cli.pause import until_over
from shared.channel import Channel
from shared.delivery.effect import effect_of, released
from shared.delivery.pace import WorkerSettings
from shared.delivery.record import report_of
from shared.delivery.worker import Worker
from shared.ids import ScopeId, TenantId
from shared.retry import DEFAULT_POLICIES, Terms
from shared.store.claim import Claim
from shared.store.database import Database
from shared.store.paused_jobs import FIRST, Covered, bring_back, find_claimed
from shared.store.pauses import PauseKey, PauseKind, block, read_pauses
from shared.store.settle import settle_if_claimed
from shared.tenant import Mode
from shared.tenantfile.current import Tenants
from shared.verdict import Deferred, NoVerdict, Verdict
from tests.factories import claim_jobs, create_jobs, new_job, until
from tests.fakes.ingest import apply_model, tenant_model
from tests.fakes.product import WAYBILL, clean_environment, eventually
from tests.fakes.provider import ScriptedProvider

NOW = timedelta(0)


@dataclass
class Installed:
    """A database with the tenants campus and acme, each with the event type booking_confirmed."""

    database: Database
    url: str
    campus: dict[Mode, ScopeId]
    acme: dict[Mode, ScopeId]

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        """The command ``waybill``, running."""
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            WAYBILL, *arguments, env=clean_environment({"DATABASE_URL": self.url}), stdout=pipe, stderr=pipe
        )

    async def waybill(self, *arguments: str) -> tuple[object, str, str]:
        """Exit code, output and complaints of the command, run in this process: dozens of new ones would take long."""
        return await asyncio.to_thread(self._call, arguments)

    def _call(self, arguments: Sequence[str]) -> tuple[object, str, str]:
        output, complaints = StringIO(), StringIO()
        with pytest.MonkeyPatch.context() as patched, redirect_stdout(output), redirect_stderr(complaints):
            patched.setenv("WAYBILL_DATABASE_URL", self.url)
            patched.setattr(sys, "argv", ["waybill", *arguments])
            patched.setattr(pause, "OBEYED_AFTER", NOW)
            with pytest.raises(SystemExit) as ended:
                main()
        return ended.value.code or 0, output.getvalue(), complaints.getvalue()

    async def keys(self) -> list[tuple[str, str, int, str]]:
        """What is paused."""
        async with self.database.hot() as pg:
            found = [one.key for one in await read_pauses(pg)]
        return [(key.kind.value, key.channel, key.tenant_id, key.name) for key in found]

    async def claimed(self, **changes: Any) -> Claim:
        """A job of campus, in a claim."""
        fields: dict[str, Any] = {"scope_id": self.campus[Mode.LIVE], **changes}
        await create_jobs(self.database, [new_job(**fields)])
        (one,) = await claim_jobs(self.database, scopes=[fields["scope_id"]])
        return one

    async def report(self, claim: Claim, verdict: Verdict | None = None) -> None:
        """The claim ends in ``verdict``, or is released."""
        terms = Terms(DEFAULT_POLICIES[Channel.EMAIL])
        effect = released(claim) if verdict is None else effect_of(verdict, claim, terms, random.Random(1))
        async with self.database.hot() as pg:
            await settle_if_claimed(pg, Channel.EMAIL, [report_of(claim, effect)])


@pytest.fixture
async def installed(database: Database, database_url: str) -> Installed:
    campus = await apply_model(database, tenant_model())
    acme = await apply_model(database, replace(tenant_model(), key="acme", name="Acme"))
    return Installed(database, database_url, campus, acme)


@pytest.mark.parametrize(
    ("selectors", "key"),
    [
        (["--channel", "email"], ("channel", "email", 0, "")),
        (["--tenant", "campus"], ("tenant", "", 1, "")),
        (["--tenant", "campus", "--channel", "push"], ("tenant", "push", 1, "")),
        (["--event-type", "acme/booking_confirmed"], ("event_type", "", 2, "booking_confirmed")),
        (["--tenant", "campus", "--event-type", "booking_confirmed"], ("event_type", "", 1, "booking_confirmed")),
        (
            ["--tenant", "acme", "--event-type", "acme/booking_confirmed", "--channel", "email"],
            ("event_type", "email", 2, "booking_confirmed"),
        ),
    ],
)
async def test_what_is_named_is_paused_until_the_same_is_resumed(
    installed: Installed, selectors: list[str], key: tuple[str, str, int, str]
) -> None:
    code, output, _ = await installed.waybill("pause", *selectors)
    assert (code, await installed.keys()) == (0, [key])
    assert output.startswith("Paused: ")
    code, output, _ = await installed.waybill("resume", *selectors)
    assert (code, await installed.keys()) == (0, [])
    assert output.startswith("Resumed: ")
    code, _, complaints = await installed.waybill("resume", *selectors)
    assert (code, "is not paused" in complaints) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["pause"], 2, "name what is meant"),
        (["resume"], 2, "name what is meant"),
        (["pause", "--event-type", "booking_confirmed"], 2, "say campus/booking_confirmed"),
        (["pause", "--tenant", "acme", "--event-type", "campus/booking_confirmed"], 2, "name two tenants"),
        (["pause", "--channel", "emial"], 2, "emial"),
        (["pause", "--channel", "email", "--until", "tomorrow"], 2, "--until must be a duration"),
        (["pause", "--channel", "email", "--until", "2020-01-01T00:00:00Z"], 2, "has passed"),
        (["pause", "--channel", "email", "--until", "9999-12-31T23:59:59-14:00"], 2, "365 days ahead: leave it out"),
        (["pause", "--channel", "email", "--until", "999999999999d"], 2, "--until must be a duration"),
        (["pause", "--tenant", "campsu"], 1, "did you mean campus?"),
        (["pause", "--event-type", "campus/booking_confirmd"], 1, "did you mean booking_confirmed?"),
        (["resume", "--tenant", "campsu"], 1, "did you mean campus?"),
    ],
)
async def test_a_mistake_is_told_and_nothing_is_paused(
    installed: Installed, arguments: list[str], code: int, said: str
) -> None:
    ended, _, complaints = await installed.waybill(*arguments)
    assert ended == code
    assert said in complaints
    assert await installed.keys() == []


async def test_who_paused_and_resumed_is_a_line_for_whoever_keeps_what_a_command_says(installed: Installed) -> None:
    lines = []
    for arguments in (["pause", "--channel", "email", "--reason", "relay moves"], ["resume", "--channel", "email"]):
        _, _, complaints = await installed.waybill(*arguments)
        lines.append(json.loads(complaints))
    assert [(line["event"], line["by"], line["channel"], line["level"]) for line in lines] == [
        ("operator.paused", operator(), "email", "info"),
        ("operator.resumed", operator(), "email", "info"),
    ]
    assert (lines[0]["reason"], lines[0]["until"]) == ("relay moves", None)


async def test_an_event_type_that_has_left_the_file_can_still_be_resumed(installed: Installed) -> None:
    await installed.waybill("pause", "--event-type", "campus/booking_confirmed")
    await apply_model(installed.database, replace(tenant_model(), event_types={}))
    code, _, _ = await installed.waybill("resume", "--event-type", "campus/booking_confirmed")
    assert (code, await installed.keys()) == (0, [])


async def test_a_second_pause_takes_the_place_of_the_first_and_ends_when_it_says(installed: Installed) -> None:
    await installed.waybill("pause", "--channel", "email", "--reason", "relay moves")
    code, output, _ = await installed.waybill("pause", "--channel", "email", "--until", "2h", "--json")
    assert code == 0
    told = json.loads(output)
    assert (told["channel"], told["tenant"], told["event_type"], told["reason"]) == ("email", None, None, "")
    left = datetime.fromisoformat(told["until"]) - datetime.now(UTC)
    assert timedelta(hours=1, minutes=50) < left <= timedelta(hours=2)
    async with installed.database.hot() as pg:
        (one,) = await read_pauses(pg)
    assert one.until == datetime.fromisoformat(told["until"])


async def test_the_list_says_when_only_some_recipients_are_held(installed: Installed) -> None:
    async with installed.database.hot() as pg:
        for name, holds_all in (("some", False), ("all", True)):
            key = PauseKey(PauseKind.SENDER, "push", TenantId(1), name)
            await block(pg, key, "refused", "403", timedelta(minutes=1), timedelta(minutes=1), holds_all=holds_all)
    told = json.loads((await installed.waybill("pauses", "--json"))[1])
    assert [(one["name"], one["holds_all"], one["refusals"]) for one in told] == [("some", False, 1), ("all", True, 1)]
    some, everybody = (await installed.waybill("pauses"))[1].splitlines()
    assert "only for recipients that were refused" in some and "only for" not in everybody


async def test_the_list_tells_of_operators_and_providers_pauses(installed: Installed) -> None:
    assert (await installed.waybill("pauses"))[1] == "Nothing is paused.\n"
    await installed.waybill("pause", "--tenant", "campus", "--channel", "email", "--reason", "exam week")
    async with installed.database.hot() as pg:
        key = PauseKey(PauseKind.SENDER, "push", TenantId(2), "acme-project")
        await block(pg, key, "mismatched sender", "403", timedelta(minutes=1), timedelta(minutes=15))
    first, second = json.loads((await installed.waybill("pauses", "--json"))[1])
    assert {name: first[name] for name in ("kind", "tenant", "channel", "name", "reason", "until", "refusals")} == {
        "kind": "tenant",
        "tenant": "campus",
        "channel": "email",
        "name": None,
        "reason": "exam week",
        "until": None,
        "refusals": 0,
    }
    assert (second["kind"], second["tenant"], second["name"], second["code"]) == (
        "sender",
        "acme",
        "acme-project",
        "403",
    )
    lines = (await installed.waybill("pauses"))[1].splitlines()
    assert lines[0].startswith("tenant campus email: since ")
    assert lines[0].endswith(f", until it is resumed, by {operator()}, exam week")
    assert (first["by"], first["code"], second["by"]) == (operator(), None, None)


async def test_wait_returns_when_what_was_in_flight_has_ended(installed: Installed) -> None:
    claim = await installed.claimed()
    waiting = await installed.start("pause", "--tenant", "campus", "--wait")
    assert waiting.stderr is not None
    async with asyncio.timeout(60):
        assert b'"operator.paused"' in await waiting.stderr.readline()
        assert await waiting.stderr.readline() == b"waybill: waiting for 1 in flight\n"
    assert await installed.keys() == [("tenant", "", 1, "")]
    ending = asyncio.create_task(waiting.communicate())
    await asyncio.wait([ending], timeout=0.2)
    assert not ending.done()
    await installed.report(claim, Deferred())
    async with asyncio.timeout(60):
        output, _ = await ending
    assert (waiting.returncode, b"Nothing of it is in flight" in output) == (0, True)


async def test_a_wait_that_is_interrupted_says_that_it_is_paused_all_the_same(installed: Installed) -> None:
    await installed.claimed()
    waiting = await installed.start("pause", "--tenant", "campus", "--wait")
    assert waiting.stderr is not None
    async with asyncio.timeout(60):
        while await waiting.stderr.readline() != b"waybill: waiting for 1 in flight\n":
            pass
        waiting.send_signal(signal.SIGINT)
        output, complaints = await waiting.communicate()
    assert (waiting.returncode, output) == (130, b"")
    assert complaints == b"waybill: not waited to the end: tenant campus is paused all the same\n"
    assert await installed.keys() == [("tenant", "", 1, "")]


@pytest.mark.parametrize(
    ("channels", "who", "event_type", "found"),
    [
        ([Channel.EMAIL], None, None, True),
        ([Channel.PUSH], None, None, False),
        (list(Channel), "campus", None, True),
        (list(Channel), "acme", None, False),
        (list(Channel), "campus", "booking_confirmed", True),
        (list(Channel), "campus", "reminder", False),
    ],
)
async def test_only_what_the_pause_covers_is_waited_for(
    installed: Installed, channels: list[Channel], who: str | None, event_type: str | None, found: bool
) -> None:
    await installed.claimed()
    scope_ids = None if who is None else list((installed.campus if who == "campus" else installed.acme).values())
    async with installed.database.hot() as pg:
        assert bool(await find_claimed(pg, Covered(channels, scope_ids, event_type))) is found


@pytest.mark.parametrize("ends", ["report", "release", "lease"])
async def test_a_claim_is_over_however_it_ends_and_later_ones_are_not_waited_for(
    installed: Installed, ends: str
) -> None:
    claim = await installed.claimed()
    waiting = asyncio.create_task(until_over(installed.database, Covered([Channel.EMAIL]), NOW))
    await asyncio.wait([waiting], timeout=0.2)
    assert not waiting.done()
    if ends == "lease":
        async with installed.database.hot() as pg:
            await pg.execute("UPDATE outgoing SET claimed_until = now() - interval '1 second'")
    else:
        await installed.report(claim, None if ends == "release" else NoVerdict(handed_over=False))
    async with installed.database.hot() as pg:
        await pg.execute("UPDATE outgoing SET due_at = now()")
    assert len(await claim_jobs(installed.database, scopes=[installed.campus[Mode.LIVE]])) == 1
    async with asyncio.timeout(60):
        await waiting


async def test_a_wait_has_an_end_and_says_that_it_is_paused_all_the_same(installed: Installed) -> None:
    await installed.claimed()
    with pytest.raises(CommandFailed, match="it is paused, but 1 are still in flight"):
        await until_over(installed.database, Covered([Channel.EMAIL]), NOW, limit=timedelta(milliseconds=100))


async def test_a_resumed_event_type_brings_back_what_was_never_tried_and_nothing_else(installed: Installed) -> None:
    database, campus = installed.database, installed.campus
    aside = [new_job(scope_id=campus[mode]) for mode in Mode]
    others = [
        replace(new_job(scope_id=campus[Mode.LIVE]), event_type="reminder"),
        new_job(scope_id=installed.acme[Mode.LIVE]),
        *(new_job(scope_id=campus[Mode.LIVE]) for _ in range(4)),
    ]
    made = await create_jobs(database, [*aside, *others])
    async with database.hot() as pg:
        await pg.execute("UPDATE outgoing SET due_at = now() + interval '50 seconds'")
        for one, change in zip(
            made[4:],
            ("attempts = 1", "unanswered = 1", "unknowns = 1", "claimed_until = now() + interval '1 minute'"),
            strict=True,
        ):
            await pg.execute(f"UPDATE outgoing SET {change} WHERE job_id = $1", one.job_id)
        covered = Covered(list(Channel), list(campus.values()), "booking_confirmed")
        behind, counts = FIRST, []
        for _ in range(3):
            brought = await bring_back(pg, covered, 1, behind)
            behind = brought.last
            counts.append(brought.count)
        assert counts == [1, 1, 0]
        due = await pg.fetch("SELECT job_id FROM outgoing WHERE due_at <= now() ORDER BY job_id")
    assert [row["job_id"] for row in due] == [one.job_id for one in made[:2]]


async def test_a_paused_event_type_is_not_sent_and_goes_out_soon_after_its_resumption(installed: Installed) -> None:
    database, second = installed.database, timedelta(seconds=1)
    tenants, provider, stop = Tenants(database), ScriptedProvider(), asyncio.Event()
    await tenants.load()
    await installed.waybill("pause", "--event-type", "campus/booking_confirmed")
    settings = WorkerSettings(Channel.EMAIL, "worker", 10, 30 * second, 5 * second, second, second / 10, second / 5)
    running = asyncio.create_task(Worker(settings, database, tenants, provider).run(stop))
    try:
        scope_id = installed.campus[Mode.LIVE]
        paused = new_job(scope_id=scope_id)
        await create_jobs(database, [paused, replace(new_job(scope_id=scope_id), event_type="reminder")])
        await until(lambda: provider.sent)

        async def set_aside() -> bool:
            async with database.hot() as pg:
                return bool(await pg.fetchval("SELECT count(*) FROM outgoing WHERE due_at > now() + interval '30 s'"))

        await eventually(set_aside)
        assert [parcel.event_id == paused.event_id for parcel in provider.sent] == [False]
        resuming = await installed.start("resume", "--event-type", "campus/booking_confirmed", "--json")
        async with asyncio.timeout(60):
            output, _ = await resuming.communicate()
        assert (resuming.returncode, json.loads(output)["brought_back"]) == (0, 1)
        await until(lambda: len(provider.sent) == 2, seconds=30)
    finally:
        stop.set()
        async with asyncio.timeout(30):
            await running
