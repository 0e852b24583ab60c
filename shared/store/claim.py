"""Taking due jobs under a lease, finding where due jobs are, and giving claims back.

The claim predicate is the whole recovery: a job whose lease has run out is simply due again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

import asyncpg
import msgspec

from shared.channel import Channel
from shared.ids import EventId, JobId, ScopeId
from shared.job import Lane
from shared.store.database import HotConnection
from shared.store.ledger import COUNT_WORK

MARGIN = "interval '5 minutes'"
"""The SQL of how far back a claim begins that knows nothing of a lane's oldest job."""
SUSPECT_WINDOW = 200
"""How many of a lane's oldest jobs are searched for a suspect: claims take the oldest first and step over suspects,
so that these soon are the oldest, and no search goes through a whole backlog."""
MAY_HAVE_SENT = "(a.verdict = 'lost' OR a.reason = 'after_handover')"
"""The SQL of whether attempt ``a`` may have sent its job without anybody's having heard of it."""


def number_of(job_id: str, claim_seq: str) -> str:
    """The SQL of the number of a job's attempt: claims that were given back without one do not count."""
    return (
        f"1 + (SELECT count(DISTINCT a.claim_seq) FROM attempts a"
        f" WHERE a.job_id = {job_id} AND a.claim_seq < {claim_seq})"
    )


LaneKey: TypeAlias = tuple[ScopeId, Lane]
"""Which scope's lane."""


@dataclass(frozen=True, slots=True)
class Head:
    """One scope's lane with due jobs; ``low`` is where its index scan may begin (None: five minutes ago).

    ``suspect``: its oldest job is to be claimed alone.
    """

    scope_id: ScopeId
    lane: Lane
    low: datetime | None
    suspect: bool = False

    @property
    def key(self) -> LaneKey:
        """Whose head it is."""
        return self.scope_id, self.lane


@dataclass(frozen=True, slots=True)
class Share:
    """How many jobs of one scope's lane a claim may take, from ``low`` on."""

    head: Head
    quota: int


class Claim(msgspec.Struct, frozen=True, gc=False):
    """One job in our hands until its lease ends, with everything an attempt needs.

    ``unanswered``, ``unknowns``, ``lost`` and ``attempts`` are as the claim found them (``lost`` includes the
    claim before this one if it vanished). ``event_type`` to ``body`` are None when the content was purged.
    ``may_repeat``: an attempt of old may have sent it, also one that those counts have forgotten.
    """

    channel: Channel
    job_id: JobId
    event_id: EventId
    scope_id: ScopeId
    lane: Lane
    claim_seq: int
    attempts: int
    max_attempts: int
    unanswered: int
    unknowns: int
    lost: int
    expired: bool
    created_at: datetime
    event_type: str | None
    recipient_id: str | None
    terms: str | None
    body: str | None
    may_repeat: bool = False


SUSPECT = "o.lost + (o.claim_seq > o.reported_seq AND o.claimed_until < now())::int >= 2"
"""The SQL of "two claims of this job ``o`` have vanished": it may be the job that kills its workers."""

_WANTED = """
wanted AS (
  SELECT *
  FROM unnest($2::int[], $3::smallint[], $4::int[], $5::timestamptz[]) AS w(scope_id, lane, quota, low)
)"""

_OLDEST = f"""
      o.channel = $1
      AND o.scope_id = w.scope_id
      AND o.lane = w.lane
      AND o.status = 'PENDING'
      AND o.due_at <= now()
      AND o.due_at >= coalesce(w.low, now() - {MARGIN})"""


# The claim's condition stands in the query level of FOR UPDATE, so that READ COMMITTED checks it again on
# the newest version of the row. MATERIALIZED and = ANY(ARRAY(…)) keep the planner from repeating the pick.
def _pick(condition: str) -> str:
    return f"""{_WANTED},
picked AS MATERIALIZED (
  SELECT j.job_id
  FROM wanted w
  CROSS JOIN LATERAL (
    SELECT o.job_id
    FROM outgoing o
    WHERE {_OLDEST}
      AND o.claimed_until < now()
      AND {condition}
    ORDER BY o.due_at, o.job_id
    LIMIT w.quota
    FOR UPDATE SKIP LOCKED) j
)"""


PICK = _pick("true")
"""The CTE ``picked``: due jobs, suspects among them, at most each share's quota."""

# Suspects are looked for among the oldest jobs without a lock, and judged again under it. PENDING is spelt by what it
# implies there: it would invite the planner to go through an index of all that are.
_PICK_SUSPECT = f"""{_WANTED},
picked AS MATERIALIZED (
  SELECT o.job_id
  FROM outgoing o
  WHERE o.channel = $1
    AND o.job_id = ANY (ARRAY(
      SELECT j.job_id
      FROM wanted w
      CROSS JOIN LATERAL (
        SELECT o.job_id, o.claimed_until < now() AND {SUSPECT} AS suspect
        FROM outgoing o
        WHERE {_OLDEST}
        ORDER BY o.due_at, o.job_id
        LIMIT w.quota) j
      WHERE j.suspect))
    AND o.finished_at IS NULL
    AND o.due_at <= now()
    AND o.claimed_until < now()
    AND {SUSPECT}
  LIMIT 1
  FOR UPDATE SKIP LOCKED
)"""


def _claim(pick: str) -> str:
    return f"""
WITH {pick},
taken AS (
  UPDATE outgoing o
  SET claim_seq = o.claim_seq + 1,
      claimed_until = now() + $6::interval,
      claimed_by = $7,
      lost = o.lost + (o.claim_seq > o.reported_seq)::int
  WHERE o.channel = $1 AND o.job_id = ANY (ARRAY(SELECT job_id FROM picked))
  RETURNING o.job_id, o.event_id, o.scope_id, o.lane, o.claim_seq, o.reported_seq, o.attempts, o.max_attempts,
            o.unanswered, o.unknowns, o.lost, o.expires_at <= now() AS expired, o.created_at
),
vanished AS (
  INSERT INTO attempts (job_id, claim_seq, verdict, number, started_at, applied)
  SELECT job_id, claim_seq - 1, 'lost', {number_of("taken.job_id", "taken.claim_seq - 1")}, now(), true
  FROM taken
  WHERE claim_seq - 1 > reported_seq
  ON CONFLICT DO NOTHING
  RETURNING job_id
),
delta AS (
  SELECT t.scope_id, (t.created_at AT TIME ZONE 'UTC')::date AS day, $1 AS channel, 'PENDING' AS status, '' AS reason,
         0 AS n, 1 AS attempts, 0 AS rounds, 0 AS tried, 0 AS sent
  FROM vanished v
  JOIN taken t USING (job_id)
),
counted AS ({COUNT_WORK})
SELECT t.job_id, t.event_id, t.scope_id, t.lane, t.claim_seq, t.attempts, t.max_attempts, t.unanswered, t.unknowns,
       t.lost, t.expired, t.created_at, c.event_type, c.recipient_id, c.terms, c.body,
       -- After a replay the counters say nothing of what was before: the attempts do.
       -- Not EXISTS: the planner may answer that from a hash of the whole table.
       t.claim_seq > 1 AND (
         SELECT true FROM attempts a WHERE a.job_id = t.job_id AND {MAY_HAVE_SENT} LIMIT 1) IS NOT NULL AS may_repeat
FROM taken t
LEFT JOIN content c USING (job_id)
ORDER BY t.job_id
"""


CLAIM = _claim(_pick(f"NOT {SUSPECT}"))
CLAIM_WITH_SUSPECTS = _claim(PICK)


async def claim(
    pg: HotConnection,
    channel: Channel,
    shares: Sequence[Share],
    lease: timedelta,
    worker: str,
    *,
    suspects: bool = False,
) -> list[Claim]:
    """Due jobs, at most each share's quota, leased to ``worker``; a claim that had vanished is recorded as lost.

    Jobs that may have killed two workers are stepped over, unless ``suspects`` are wanted, too.
    """
    statement = CLAIM_WITH_SUSPECTS if suspects else CLAIM
    rows = await pg.fetch(statement, *pick_arguments(channel, shares), lease, worker)
    return [_read(channel, row) for row in rows]


CLAIM_SUSPECT = _claim(_PICK_SUSPECT)


async def claim_suspect(
    pg: HotConnection, channel: Channel, heads: Sequence[Head], lease: timedelta, worker: str
) -> Claim | None:
    """One job that may have killed two workers, to be held alone; None when none of ``heads`` has one that is free."""
    windows = [Share(head, SUSPECT_WINDOW) for head in heads]
    rows = await pg.fetch(CLAIM_SUSPECT, *pick_arguments(channel, windows), lease, worker)
    return _read(channel, rows[0]) if rows else None


def pick_arguments(channel: Channel, shares: Sequence[Share]) -> tuple[object, ...]:
    """The first five arguments of every statement that begins with a pick."""
    return (
        channel,
        [share.head.scope_id for share in shares],
        [share.head.lane for share in shares],
        [share.quota for share in shares],
        [share.head.low for share in shares],
    )


def _read(channel: Channel, row: asyncpg.Record) -> Claim:
    return Claim(channel, *row)
