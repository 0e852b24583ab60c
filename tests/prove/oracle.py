"""Who believed what, kept outside the database, and the judgement over what the database made of it."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta

from shared.job import JobStatus
from shared.store.claim import Claim
from shared.store.settle import Report, Settled
from tests.prove.history import Change

Key = tuple[int, int]
"""A claim: the job and the number of the claim."""
SUSPECT_FROM = 2
"""From how many lost claims on a job is to be claimed alone."""


@dataclass(slots=True)
class Harm:
    """What must not happen, counted; every count is 0 in an engine that keeps its promises."""

    stale_applied: int = 0
    """Verdicts of superseded or already reported claims that changed a row, late Delivered apart."""
    sent_lost: int = 0
    """Jobs whose Delivered was written, and which did not end SENT or bounced."""
    left_sent: int = 0
    """Rows that left SENT other than by a bounce."""
    attempts_over_limit: int = 0
    """Rounds that counted beyond the limit."""
    double_claims: int = 0
    """Claims of a job whose lease lasted, by the database's clock or by the workers' own."""
    robbed: int = 0
    """Other changes that somebody made to a job that was in a worker's hands."""
    suspects_in_company: int = 0
    """Jobs that may have killed two workers and were claimed beside others."""
    seq_regressions: int = 0
    """Rows whose fence fell."""
    unflagged: int = 0
    """Copies that a provider took after the first and that were not flagged."""
    ledger_mistakes: int = 0
    """Counts of the ledger that differ from the tables."""
    change_mistakes: int = 0
    """Jobs that are not what the feed of changes told of them last, changes told twice, gaps in the numbers."""
    inbox_duplicates: int = 0
    """Events with more than one inbox entry, or jobs SENT without theirs."""
    unfinished: int = 0
    """Jobs that were still PENDING long after their providers answered again."""

    def __bool__(self) -> bool:
        """Whether there was any."""
        return any(asdict(self).values())

    def __add__(self, other: "Harm") -> "Harm":
        """Both together."""
        return Harm(**{name: count + getattr(other, name) for name, count in asdict(self).items()})


@dataclass(slots=True)
class _Held:
    """A claim of a job: when it was asked for, when its worker knew that it had it, and when it gave it up."""

    began: float
    known_at: float
    wrote_at: float | None = None


class Oracle:
    """What the workers of one run were given, sent and reported, as they saw it themselves."""

    def __init__(self, lease: timedelta) -> None:
        self.claim_count = 0
        self.acts: Counter[str] = Counter()
        self._limit_passed = 0
        self._in_company = 0
        self._contradicted: set[Key] = set()
        self._lease_seconds = lease.total_seconds()
        self._held: dict[int, dict[int, _Held]] = defaultdict(dict)
        self._delivered: set[int] = set()
        self._wrote: dict[tuple[str, int], Report] = {}
        self._unflagged: Counter[int] = Counter()

    def claimed(self, claims: Sequence[Claim], began: float) -> None:
        """A worker was given ``claims``; it had asked at ``began`` (monotonic)."""
        now = time.monotonic()
        self.claim_count += len(claims)
        if len(claims) > 1:
            self._in_company += sum(one.lost >= SUSPECT_FROM for one in claims)
        for one in claims:
            self._limit_passed += one.attempts >= one.max_attempts
            held, mine = self._held[one.job_id], _Held(began, now)
            for seq, other in held.items():
                # An answer may be so late that the claim after it is known already.
                first, second = (other, mine) if seq < one.claim_seq else (mine, other)
                # Its lease cannot have ended: it lasts from when it was given, and that was after it was asked for.
                if first.wrote_at is None and second.known_at < first.began + self._lease_seconds:
                    self._contradicted.add((one.job_id, one.claim_seq))
            held[one.claim_seq] = mine

    def writing(self, reports: Iterable[Report]) -> None:
        """A worker is about to write ``reports``, and so gives up its claims."""
        for report in reports:
            held = self._held[report.job_id].get(report.claim_seq)
            if held is not None and held.wrote_at is None:
                held.wrote_at = time.monotonic()

    def wrote(self, reports: Iterable[Report], settled: Iterable[Settled], transaction: str) -> None:
        """The write of ``reports`` was committed as ``transaction``; ``settled`` is what it is said to have done."""
        self.acts.update(one.act for one in settled)
        for report in reports:
            self._wrote[transaction, report.job_id] = report
            if report.status is JobStatus.SENT:
                self._delivered.add(report.job_id)

    def took(self, job_id: int, *, flagged: bool) -> None:
        """The provider took the message."""
        self._unflagged[job_id] += not flagged

    def judge(self, history: Sequence[Change], final: dict[int, tuple[str, str]]) -> Harm:
        """The harm that was done, from every change there was and every job's status and reason at the end."""
        harm = Harm(attempts_over_limit=self._limit_passed, suspects_in_company=self._in_company)
        doubled = set(self._contradicted)
        rounds: Counter[int] = Counter()
        for change in history:
            harm.left_sent += change.was == "SENT" != change.became and change.became_reason != "bounced"
            harm.seq_regressions += change.became_seq < change.was_seq or change.became_reported < change.was_reported
            report = self._wrote.get((change.wrote, change.job_id))
            if report is not None:
                self._judge_verdict(change, report, rounds, harm)
            elif change.is_replay:
                rounds[change.job_id] = 0
            elif not change.was_held:
                continue
            elif change.is_claim or change.ends_in_one:
                doubled.add((change.job_id, change.became_seq))
            else:
                harm.robbed += 1
        harm.double_claims = len(doubled)
        # What came back and was replayed is sent again on purpose, and may end otherwise.
        back = {change.job_id for change in history if change.became_reason == "bounced"}
        harm.unflagged = sum(n - 1 for job_id, n in self._unflagged.items() if n > 1 and job_id not in back)
        harm.sent_lost = sum(final[job_id][0] != "SENT" for job_id in self._delivered - back)
        harm.unfinished = sum(status == "PENDING" for status, _ in final.values())
        return harm

    def _judge_verdict(self, change: Change, report: Report, rounds: Counter[int], harm: Harm) -> None:
        seq = report.claim_seq
        if change.was == "PENDING" and change.was_seq == seq and change.was_reported < seq:
            rounds[change.job_id] += report.counted
            harm.attempts_over_limit += report.counted and rounds[change.job_id] > change.max_attempts
            return
        wins_late = report.status is JobStatus.SENT and change.was != "SENT" and change.was_reason != "bounced"
        harm.stale_applied += not (wins_late and change.became == "SENT")
