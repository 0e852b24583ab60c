"""The guards behind the invariants, and the tests that fail when one is taken out.

``python -m tests.prove guards`` takes out one after the other, in a copy of this folder, and runs its tests there: one
that passes all the same proves nothing. docs/explanation/invariants.md is this table in words.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from shared.store.place import discard
from tests.benchmarks.harness import ROOT

COPIED = ("services", "shared", "deploy", "tests", "examples", "pyproject.toml", "README.md", "docs")
TEST_SECONDS = 240


@dataclass(frozen=True)
class Guard:
    """What keeps an invariant: ``kept`` in ``file`` becomes ``taken_out``, and each of ``tests`` must fail."""

    invariant: str
    says: str
    file: str
    kept: str
    taken_out: str
    tests: tuple[str, ...]


GUARDS = (
    Guard(
        "I1",
        "a claim that vanished is due again when its lease has ended",
        "shared/store/claim.py",
        "      AND o.claimed_until < now()\n      AND {condition}",
        "      AND o.claimed_until = '-infinity'\n      AND {condition}",
        ("integration/test_claim.py::test_a_leased_job_is_not_claimed_again_before_its_lease_ends",),
    ),
    Guard(
        "I1",
        "an event that nobody routed is announced again",
        "shared/store/announcing.py",
        "WHERE status = 'QUEUED'\n  AND announced_at <= coalesce",
        "WHERE status = 'ROUTED'\n  AND announced_at <= coalesce",
        ("integration/test_republisher.py::test_an_event_is_announced_again_only_when_its_time_has_come",),
    ),
    Guard(
        "I2",
        "one inbox entry an event",
        "shared/store/migrations/versions/20261129_1700_first_schema.py",
        "CONSTRAINT inbox_once UNIQUE (event_id)",
        "CONSTRAINT inbox_once CHECK (event_id IS NOT NULL)",
        ("integration/test_inbox_delivery.py::test_the_database_itself_refuses_a_second_entry_of_an_event",),
    ),
    Guard(
        "I2",
        "an entry is written for a claim that still stands",
        "shared/store/inbox_delivery.py",
        "    AND o.claim_seq = $3\n    AND o.reported_seq < $3\n",
        "    AND $3::int IS NOT NULL\n",
        ("integration/test_inbox_delivery.py::test_an_entry_of_a_claim_that_no_longer_stands_is_not_written",),
    ),
    Guard(
        "I3",
        "a report that is neither current nor a late Delivered changes nothing",
        "shared/store/settle.py",
        "ELSE 'stale' END AS act",
        "ELSE 'applied' END AS act",
        ("integration/test_settle.py::test_nothing_leaves_sent", "integration/test_fuzz.py"),
    ),
    Guard(
        "I3",
        "only a FAILED job is replayed",
        "shared/store/replay.py",
        "CASE WHEN status <> 'FAILED' THEN 'not_failed'",
        "CASE WHEN status = 'PENDING' THEN 'not_failed'",
        ("integration/test_retry.py::test_a_job_in_any_other_status_stays_as_it_is",),
    ),
    Guard(
        "I4",
        "the fence: only the newest claim is heard",
        "shared/store/settle.py",
        "l.status = 'PENDING' AND l.claim_seq = r.claim_seq AND",
        "l.status = 'PENDING' AND",
        (
            "integration/test_settle.py::test_lease_lost_during_send_leaves_the_new_owner_alone",
            "integration/test_fuzz.py",
            "integration/test_job_life.py",
        ),
    ),
    Guard(
        "I4",
        "a report counts once, however often it is written",
        "shared/store/settle.py",
        " AND l.reported_seq < r.claim_seq\n",
        "\n",
        ("integration/test_settle.py::test_a_report_written_twice_changes_nothing_the_second_time",),
    ),
    Guard(
        "I4",
        "a bounce outlasts a late Delivered",
        "shared/store/settle.py",
        "AND NOT (l.status = 'FAILED' AND l.reason = 'bounced')",
        "AND true",
        ("integration/test_settle.py::test_a_late_delivered_wins_over_every_failure_but_a_bounce",),
    ),
    Guard(
        "I4",
        "a replay moves the fence",
        "shared/store/replay.py",
        "      claim_seq = o.claim_seq + 1,\n      reported_seq = o.claim_seq + 1,\n",
        "",
        ("integration/test_job_life.py",),
    ),
    Guard(
        "I5",
        "a deferral at the limit is the last",
        "shared/delivery/effect.py",
        "case Deferred() if rounds >= claim.max_attempts:",
        "case Deferred() if rounds > claim.max_attempts:",
        (
            "integration/test_settle.py::test_deferrals_end_exhausted_at_the_limit_and_not_before",
            "integration/test_fuzz.py",
        ),
    ),
    Guard(
        "I6",
        "no send starts when its time is over",
        "shared/delivery/attempt.py",
        "if stop.is_set() or time.monotonic() >= deadline:",
        "if stop.is_set():",
        ("integration/test_lease.py::test_a_claim_whose_answer_came_too_late_is_given_back_and_never_sent",),
    ),
    Guard(
        "I7",
        "a job in somebody's hands is not claimed",
        "shared/store/claim.py",
        "      AND o.claimed_until < now()\n      AND {condition}",
        "      AND {condition}",
        (
            "integration/test_claim.py::test_a_leased_job_is_not_claimed_again_before_its_lease_ends",
            "integration/test_fuzz.py",
        ),
    ),
    Guard(
        "I7",
        "an attempt that may be a duplicate says so",
        "shared/delivery/attempt.py",
        "possible_duplicate=claim.may_repeat or claim.unknowns + claim.lost > 0,",
        "possible_duplicate=False,",
        (
            "integration/test_worker.py::test_a_resend_after_a_lost_claim_is_flagged",
            "integration/test_after_the_dot.py",
            "integration/test_fuzz.py",
        ),
    ),
    Guard(
        "I7",
        "one job an event and channel",
        "shared/store/migrations/versions/20261129_1700_first_schema.py",
        "CONSTRAINT outgoing_one_per_channel UNIQUE (event_id, channel),",
        "CONSTRAINT outgoing_one_per_channel UNIQUE (event_id, channel, job_id),",
        ("integration/test_claim.py::test_creating_the_same_job_twice_makes_one_row",),
    ),
    Guard(
        "I8",
        "one scope holds at most half of the slots while another waits",
        "shared/delivery/dealing.py",
        "max(1, self._slots // 2)",
        "self._slots",
        ("unit/test_dealing.py",),
    ),
    Guard(
        "I8",
        "a tenth of the slots is kept for scopes that hold none",
        "shared/delivery/dealing.py",
        "self._kept = max(1, slots // 10)",
        "self._kept = 0",
        ("integration/test_fairness.py::test_another_tenants_job_takes_one_of_the_slots_that_are_kept",),
    ),
    Guard(
        "I9",
        "an event is read by its scope",
        "shared/store/events.py",
        "WHERE scope_id = $1 AND event_id = $2\n",
        "WHERE $1::int IS NOT NULL AND event_id = $2\n",
        ("integration/test_ingest_events.py::test_the_events_of_one_scope_do_not_exist_for_another",),
    ),
    Guard(
        "I9",
        "lists hold what is of their scope",
        "shared/store/event_lists.py",
        "WHERE scope_id = $1 {{narrowed}}",
        "WHERE $1::int IS NOT NULL {{narrowed}}",
        ("integration/test_lists.py::test_a_scope_lists_only_what_is_its_own",),
    ),
    Guard(
        "I10",
        "an answer waits for no broker",
        "services/ingest/accept.py",
        "self._announcer.announce_soon([inserted.event_id])",
        "await self._announcer._bus.announce([inserted.event_id])",
        (
            "integration/test_ingest_outages.py"
            "::test_without_the_broker_events_are_accepted_and_announced_once_it_is_back",
        ),
    ),
    Guard(
        "I10",
        "what the broker did not confirm is announced again",
        "services/ingest/announcer.py",
        "            self._unconfirmed.extend(late + fresh)\n",
        "",
        (
            "integration/test_ingest_outages.py"
            "::test_without_the_broker_events_are_accepted_and_announced_once_it_is_back",
        ),
    ),
    Guard(
        "I11",
        "a connection that the server has ended is not used",
        "shared/store/database.py",
        "if driver.is_closed():",
        "if False:",
        (
            "integration/test_store_outages.py"
            "::test_connections_that_the_server_has_ended_are_noticed_before_they_are_used",
        ),
    ),
)


@dataclass(frozen=True)
class TakenOut:
    """What became of the tests of one guard; ``missed``: those that passed without it."""

    guard: Guard
    missed: tuple[str, ...]
    words: str


def take_out(guards: Sequence[Guard], say: Callable[[str], None]) -> list[TakenOut]:
    """Each of ``guards`` taken out once, its tests run without it."""
    with copied() as folder:
        return [_without(folder, guard, say) for guard in guards]


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the project that may be broken."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "waybill"
        for part in COPIED:
            source, target = ROOT / part, folder / part
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        try:
            yield folder
        finally:
            discard(folder / ".waybill")


def _without(folder: Path, guard: Guard, say: Callable[[str], None]) -> TakenOut:
    file = folder / guard.file
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole.replace(guard.kept, guard.taken_out), encoding="utf-8")
    missed, words = [], ""
    try:
        for test in guard.tests:
            failed, words = _fails(folder, test)
            say(f"{guard.invariant} without “{guard.says}”: {test} {'fails' if failed else 'PASSES'}: {words}")
            missed += [] if failed else [test]
    finally:
        file.write_text(whole, encoding="utf-8")
    return TakenOut(guard, tuple(missed), words)


def _fails(folder: Path, test: str) -> tuple[bool, str]:
    """Whether a test failed in ``folder``, and the first line of why."""
    command = [sys.executable, "-m", "pytest", "--exitfirst", "--quiet", "-p", "no:cacheprovider", f"tests/{test}"]
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, f"--basetemp={folder.parent / 'tests'}"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TEST_SECONDS,
        check=False,
    )
    reasons = [line.removeprefix("E").strip() for line in done.stdout.splitlines() if line.startswith("E  ")]
    failed = "\nFAILED " in done.stdout
    if not failed and done.returncode != 0:
        # What never came to its own assertions says nothing of the guard.
        raise AssertionError(f"{test} could not be run:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    return failed, reasons[0] if reasons else ""
