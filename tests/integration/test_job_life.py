"""The life of a job under every order of events: the store's own statements against a model of a few lines.

Hypothesis finds the orders and prints the shortest one that goes wrong, with what reproduces it.
"""

import asyncio
import itertools
import random
from collections.abc import Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, TypeVar

import uvloop
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from shared.channel import Channel
from shared.delivery.effect import SMALLINT_MAX, effect_of, released
from shared.delivery.record import report_of
from shared.event import EventStatus
from shared.ids import EventId, JobId, ScopeId
from shared.job import JobReason, Lane
from shared.retry import UNKNOWN_LIMITS, RetryPolicy, Terms
from shared.store.cancel import cancel_events
from shared.store.claim import Claim, Head, Share, claim, claim_suspect
from shared.store.database import Database
from shared.store.expiry import expire_locked, lock_expired
from shared.store.job_lists import JobKey
from shared.store.receipts import NewReceipt, ReceiptSource, apply_ripe, keep_if_new
from shared.store.replay import ReplayOptions, replay_if_failed
from shared.store.routing import End, finish_if_queued
from shared.store.settle import AttemptRow, settle_if_claimed
from shared.verdict import VERDICT_WORDS, Deferred, Delivered, NoVerdict, Rejected, SenderBlocked, Verdict
from tests.factories import accept_events, create_jobs, new_event, new_job
from tests.fakes.changes import change_mistakes
from tests.fakes.ledger import ledger_mistakes

LIMIT = 2
"""Rounds that count, so few that runs come to the last one."""
TERMS = Terms(RetryPolicy(attempts=LIMIT, backoff=timedelta(hours=1)))
FAR, LEASE = timedelta(days=30), timedelta(hours=1)
"""Nothing comes due, ends or expires by itself within a run: the rules say when."""
VERDICTS: dict[str, Verdict] = {
    "delivered": Delivered(),
    "rejected": Rejected(),
    "deferred": Deferred(),
    "silent": NoVerdict(handed_over=False),
    "silent_after_handover": NoVerdict(handed_over=True),
    "blocked": SenderBlocked("relay"),
}
MAY_HAVE_SENT = {"lost", "silent_after_handover"}

WORDS = st.sampled_from(["released", *VERDICTS])
RARELY = st.integers(0, 3)
"""0 is the dice that counts: what ends a life too early ends the search."""

T = TypeVar("T")
_numbers = itertools.count(1)


@dataclass
class Model:
    """What the row must say; ``recorded`` has what each claim's attempt says."""

    status: str = "PENDING"
    reason: str = ""
    attempts: int = 0
    unanswered: int = 0
    unknowns: int = 0
    lost: int = 0
    seq: int = 0
    reported: int = 0
    held: bool = False
    due: bool = True
    expired: bool = False
    recorded: dict[int, str] = field(default_factory=dict)

    @property
    def row(self) -> tuple[object, ...]:
        return (
            self.status,
            self.reason,
            self.attempts,
            self.unanswered,
            self.unknowns,
            self.lost,
            self.seq,
            self.reported,
        )

    @property
    def free(self) -> bool:
        """Whether a worker may claim it."""
        return self.status == "PENDING" and self.due and not self.held

    @property
    def vanished(self) -> bool:
        return self.seq > self.reported and not self.held

    def give_up_claim(self) -> None:
        """A claim that vanished is written down by whoever finds it."""
        if self.seq > self.reported:
            self.recorded.setdefault(self.seq, "lost")
            self.lost += 1

    def end(self, status: str, reason: str = "") -> None:
        self.status, self.reason = status, reason

    def expire(self) -> None:
        partly = "delivered" in self.recorded.values()
        self.end(*(("SENT", "partial") if partly else ("FAILED", "expired")))

    def report(self, one: Claim, word: str) -> None:
        current = self.status == "PENDING" and self.seq == one.claim_seq and self.reported < one.claim_seq
        wins_late = word == "delivered" and self.status != "SENT" and self.reason != "bounced"
        if current:
            self._apply(one, word)
        elif wins_late and self.recorded.get(one.claim_seq, "lost") == "lost":
            self.attempts = min(self.attempts + 1, LIMIT)
            self.end("SENT")
        else:
            self._record(one, word)
            return
        self.reported = max(self.reported, one.claim_seq)
        self._record(one, word)

    def _record(self, one: Claim, word: str) -> None:
        if word != "released" and self.recorded.get(one.claim_seq, "lost") == "lost":
            self.recorded[one.claim_seq] = word

    def _apply(self, one: Claim, word: str) -> None:
        self.held = False
        counted = word in {"delivered", "rejected", "deferred"}
        self.attempts += counted
        if counted:
            self.unanswered = 0
        self.unanswered += word in {"silent", "blocked"}
        self.unknowns += word == "silent_after_handover"
        if word == "delivered":
            self.end("SENT")
        elif word == "rejected":
            self.end("FAILED", "rejected")
        elif word == "deferred" and self.attempts == LIMIT:
            self.end("FAILED", "exhausted")
        elif word == "silent_after_handover" and self.unknowns == UNKNOWN_LIMITS[Channel.EMAIL]:
            self.end("FAILED", "unknown_outcome")
        elif self.expired:
            self.expire()
        else:
            self.due = word == "released"


class JobLife(RuleBasedStateMachine):
    """One job; ``claims`` has every claim that anybody ever had of it, and all may report, at any time, again."""

    loop: ClassVar[asyncio.AbstractEventLoop]
    database: ClassVar[Database]

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.claims: list[Claim] = []
        self.scope_id = ScopeId(next(_numbers))
        self.event_id, self.job_id = self.run(self._create())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def _create(self) -> tuple[EventId, JobId]:
        (event_id,) = await accept_events(self.database, [new_event(scope_id=self.scope_id)])
        job = new_job(event_id=event_id, scope_id=self.scope_id, policy=TERMS.retry, expires_in=FAR)
        (made,) = await create_jobs(self.database, [job])
        async with self.database.hot() as pg:
            await finish_if_queued(pg, [End(event_id, EventStatus.ROUTED)])
        return event_id, made.job_id

    async def _say(self, change: str) -> None:
        async with self.database.hot() as pg:
            await pg.execute(f"UPDATE outgoing SET {change} WHERE channel = 'email' AND job_id = $1", self.job_id)

    @precondition(lambda self: self.model.free)
    @rule()
    def claim(self) -> None:
        self._claim_if_free()

    @precondition(lambda self: not self.model.free)
    @rule(dice=RARELY)
    def claim_in_vain(self, dice: int) -> None:
        if not dice:
            self._claim_if_free()

    def _claim_if_free(self) -> None:
        model, free = self.model, self.model.free
        suspect = model.lost + model.vanished >= 2
        ordinary, alone = self.run(self._claim())
        assert (len(ordinary), alone is not None) == (free and not suspect, free and suspect)
        for one in [*ordinary, *([alone] if alone else [])]:
            model.give_up_claim()
            model.seq, model.held = model.seq + 1, True
            assert (one.claim_seq, one.lost, one.attempts) == (model.seq, model.lost, model.attempts)
            assert (one.unanswered, one.unknowns, one.expired) == (model.unanswered, model.unknowns, model.expired)
            may_repeat = bool(MAY_HAVE_SENT & set(model.recorded.values()))
            assert (one.may_repeat or one.lost + one.unknowns > 0) == (may_repeat or model.lost + model.unknowns > 0)
            self.claims.append(one)

    async def _claim(self) -> tuple[list[Claim], Claim | None]:
        heads = [Head(self.scope_id, lane, None) for lane in Lane]
        async with self.database.hot() as pg:
            ordinary = await claim(pg, Channel.EMAIL, [Share(head, 5) for head in heads], LEASE, "worker")
            return ordinary, await claim_suspect(pg, Channel.EMAIL, heads, LEASE, "worker")

    @precondition(lambda self: self.model.held)
    @rule(somebody_is_quick=st.booleans())
    def the_lease_runs_out(self, somebody_is_quick: bool) -> None:
        self.run(self._say("claimed_until = now() - interval '1 second'"))
        self.model.held = False
        if somebody_is_quick:
            self._claim_if_free()

    @precondition(lambda self: not self.model.due and self.model.status == "PENDING")
    @rule()
    def it_comes_due(self) -> None:
        self.run(self._say("due_at = now()"))
        self.model.due = True

    @precondition(lambda self: not self.model.expired)
    @rule(dice=RARELY)
    def its_time_is_up(self, dice: int) -> None:
        if dice:
            return
        self.run(self._say("expires_at = now()"))
        self.model.expired = True

    @precondition(lambda self: self.claims)
    @rule(word=WORDS)
    def report(self, word: str) -> None:
        self._report(self.claims[-1], word)

    @precondition(lambda self: len(self.claims) > 1)
    @rule(word=WORDS, age=st.integers(1, 3))
    def report_late(self, word: str, age: int) -> None:
        self._report(self.claims[max(len(self.claims) - 1 - age, 0)], word)

    def _report(self, one: Claim, word: str) -> None:
        self.run(self._settle(one, word))
        self.model.report(one, word)

    async def _settle(self, one: Claim, word: str) -> None:
        if word == "released":
            report = report_of(one, released(one))
        else:
            verdict = VERDICTS[word]
            reason = "after_handover" if word == "silent_after_handover" else ""
            row = AttemptRow(
                target_id=0,
                provider="smtp",
                verdict=VERDICT_WORDS[type(verdict)],
                reason=reason,
                code=None,
                error=None,
                provider_id=None,
                started_at=datetime.now(UTC),
                took=timedelta(),
                target_dead=False,
                possible_duplicate=False,
            )
            report = report_of(one, effect_of(verdict, one, TERMS, random.Random(1)), (row,))
        async with self.database.hot() as pg:
            await settle_if_claimed(pg, Channel.EMAIL, [report])

    @rule(dice=RARELY)
    def cancel(self, dice: int) -> None:
        if dice:
            return
        self.run(self._cancel())
        if self.model.status == "PENDING" and not self.model.held:
            self.model.give_up_claim()
            self.model.reported = self.model.seq
            self.model.end("CANCELLED")

    async def _cancel(self) -> None:
        async with self.database.hot() as pg, pg.transaction():
            await cancel_events(pg, self.scope_id, [self.event_id])

    @rule(extend=st.booleans(), dice=RARELY)
    def replay(self, extend: bool, dice: int) -> None:
        if dice and self.model.status != "FAILED":
            return
        self.run(self._replay(extend))
        model = self.model
        if model.status != "FAILED" or (model.expired and not extend):
            return
        told = MAY_HAVE_SENT & set(model.recorded.values())
        model.unknowns = int((model.unknowns > 0 or model.lost > 0) and not told)
        # Somebody may hold it still: whom an older claim's late Delivered overtook.
        model.status, model.reason, model.due = "PENDING", "", True
        model.attempts = model.unanswered = model.lost = 0
        model.seq += 1
        model.reported = model.seq
        model.expired = False

    async def _replay(self, extend: bool) -> None:
        options = ReplayOptions(expires_at=datetime.now(UTC) + FAR if extend else None)
        async with self.database.hot() as pg, pg.transaction():
            key = JobKey(Channel.EMAIL, self.job_id, JobReason.NONE)
            await replay_if_failed(pg, self.scope_id, [key], options)

    @precondition(lambda self: self.model.expired)
    @rule()
    def sweep_what_has_expired(self) -> None:
        self.run(self._sweep())
        if self.model.status == "PENDING" and self.model.expired and not self.model.held:
            self.model.give_up_claim()
            self.model.reported = self.model.seq
            self.model.expire()

    async def _sweep(self) -> None:
        async with self.database.hot() as pg, pg.transaction():
            await expire_locked(pg, Channel.EMAIL, await lock_expired(pg, Channel.EMAIL, 1000))

    @precondition(lambda self: self.model.status == "SENT")
    @rule()
    def bounce(self) -> None:
        self.run(self._bounce())
        self.model.status, self.model.reason = "FAILED", "bounced"

    async def _bounce(self) -> None:
        name = f"report-{next(_numbers)}"
        receipt = NewReceipt(
            self.event_id, ReceiptSource.WEBHOOK, name, "bob@example.com", "permanent-message", None, ""
        )
        async with self.database.hot() as pg:
            await keep_if_new(pg, receipt)
            await apply_ripe(pg, 100)

    @invariant()
    def the_row_says_what_the_model_says(self) -> None:
        row, verdicts = self.run(self._read())
        assert row == self.model.row
        assert verdicts == {
            seq: word if word == "lost" else VERDICT_WORDS[type(VERDICTS[word])]
            for seq, word in self.model.recorded.items()
        }
        assert self.model.attempts <= LIMIT
        assert self.model.lost <= SMALLINT_MAX

    async def _read(self) -> tuple[tuple[object, ...], dict[int, str]]:
        async with self.database.hot() as pg:
            row = await pg.fetchrow(
                """
                SELECT status, reason, attempts, unanswered, unknowns, lost, claim_seq, reported_seq
                FROM outgoing
                WHERE channel = 'email' AND job_id = $1
                """,
                self.job_id,
            )
            attempts = await pg.fetch("SELECT claim_seq, verdict FROM attempts WHERE job_id = $1", self.job_id)
        return tuple(row or ()), {one["claim_seq"]: one["verdict"] for one in attempts}


def live(database_url: str) -> list[tuple[object, ...]]:
    """Many lives, on a loop of their own; what is wrong with the ledger and the feed of changes after them."""
    loop = uvloop.new_event_loop()
    database = Database(database_url, pool_size=2)
    machine = type("JobLifeHere", (JobLife,), {"loop": loop, "database": database})
    bounds = settings(
        max_examples=120,
        stateful_step_count=30,
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(machine, settings=bounds)
        mistakes = (ledger_mistakes(database), change_mistakes(database))
        return [one for some in mistakes for one in loop.run_until_complete(some)]
    finally:
        loop.run_until_complete(database.close())
        loop.close()


async def test_a_job_is_always_where_its_history_puts_it(database_url: str) -> None:
    # Hypothesis knows no event loop: it has a thread for itself.
    assert await asyncio.to_thread(live, database_url) == []
