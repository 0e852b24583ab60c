"""What a long outage of Firebase left behind, judged: jobs, attempts and targets against what the peer was asked."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from services.push.app import CONNECTIONS_PER_SLOT
from services.push.message import JOB_KEY
from shared.channel import Channel
from shared.delivery.breaker import FIRST_REST_SECONDS
from shared.ids import format_job_id
from shared.store.database import Database
from tests.fakes.fcm import MOST_REMEMBERED, FcmPeer
from tests.fakes.ledger import ledger_mistakes
from tests.prove.footprint import Footprint

SLOTS = 20
"""How many jobs the push process sends at the same time."""
MORE_MEMORY = 1.5
"""How much more memory may be resident afterwards: in between, a backlog went through every slot at once."""
JOBS = """
SELECT o.event_id, c.recipient_id, o.status, o.reason, o.attempts, count(a.job_id) AS row_count
FROM outgoing o
JOIN content c USING (job_id)
LEFT JOIN attempts a USING (job_id)
WHERE o.channel = 'push'
GROUP BY o.event_id, c.recipient_id, o.job_id, o.status, o.reason, o.attempts
"""


@dataclass(frozen=True)
class Harm:
    """What must be 0. ``lost`` and ``twice`` count messages by phone, the others what they are named after.

    ``missing`` events have no job, ``counted`` jobs used up more than the attempt that succeeded, ``mismatched`` ones
    were posted more or less often than their attempts say.
    """

    missing: int
    unsent: int
    lost: int
    twice: int
    counted: int
    mismatched: int
    tokens_lost: int
    ledger_mistakes: int


@dataclass(frozen=True)
class Aftermath:
    """What an outage came to. ``unknowns``: silences after the hand-over, of which each probe may meet one.

    ``connections_left``: how many may be open in the end.
    """

    harm: Harm
    jobs: int
    posts: int
    unknowns: int
    silent_seconds: float
    drained_seconds: float
    before: Footprint
    most: Footprint
    after: Footprint
    connections_left: int

    @property
    def is_good(self) -> bool:
        """Whether nothing was harmed, few were tried in vain, and the process is what it was."""
        return (
            not any(asdict(self.harm).values())
            and self.unknowns <= SLOTS + self.silent_seconds / FIRST_REST_SECONDS
            and self.after.memory <= self.before.memory * MORE_MEMORY
            and self.most.connections <= SLOTS * CONNECTIONS_PER_SLOT
            and self.after.connections <= self.connections_left
        )


async def harm(database: Database, fcm: FcmPeer, phones: Mapping[str, Sequence[str]], accepted: int) -> Harm:
    """What went wrong with ``accepted`` events for recipients with these ``phones``."""
    async with database.hot() as pg:
        jobs = await pg.fetch(JOBS)
        tokens = {row["token"] for row in await pg.fetch("SELECT token FROM push_targets")}
    rung = Counter((push.message["data"][JOB_KEY], push.token) for push in fcm.newest(MOST_REMEMBERED))
    copies = [
        rung[format_job_id(job["event_id"], Channel.PUSH), phone]
        for job in jobs
        for phone in phones[job["recipient_id"]]
    ]
    return Harm(
        missing=accepted - len(jobs),
        unsent=sum((job["status"], job["reason"]) != ("SENT", "") for job in jobs),
        lost=copies.count(0),
        twice=sum(max(count - 1, 0) for count in copies),
        counted=sum(job["attempts"] != 1 for job in jobs),
        mismatched=sum(fcm.posts_of[format_job_id(job["event_id"], Channel.PUSH)] != job["row_count"] for job in jobs),
        tokens_lost=len({phone for some in phones.values() for phone in some} - tokens),
        ledger_mistakes=len(await ledger_mistakes(database)),
    )


async def count_unknowns(database: Database) -> int:
    """How many silences after the hand-over there were."""
    async with database.hot() as pg:
        return int(await pg.fetchval("SELECT coalesce(sum(unknowns), 0) FROM outgoing WHERE channel = 'push'"))
