"""What a storm left behind, judged: the database against what the peers took, and against what was accepted."""

from collections import Counter
from collections.abc import Collection
from dataclasses import asdict, dataclass, field

from shared.channel import Channel
from shared.ids import EventId, job_uuid
from shared.store.database import Database
from tests.fakes.fcm import MOST_REMEMBERED
from tests.fakes.installation import Installation
from tests.fakes.ledger import ledger_mistakes

CHANNELS = set(Channel)
"""Where the event of the storm goes."""
JOBS = """
SELECT o.event_id, o.channel, o.status, o.reason, count(a.job_id) AS attempt_count,
       (SELECT count(*) FROM inbox i WHERE o.channel = 'inapp' AND i.event_id = o.event_id) AS entry_count,
       coalesce((array_agg(a.possible_duplicate ORDER BY a.claim_seq DESC))[1], false) AS flagged
FROM outgoing o
LEFT JOIN attempts a USING (job_id)
GROUP BY o.event_id, o.job_id, o.channel, o.status, o.reason
"""


@dataclass(slots=True)
class Findings:
    """What was found. Copies of a mail or a push are allowed where flagged; all else must be 0."""

    lost: int = 0
    """Accepted events that did not reach everybody they were for."""
    twice: int = 0
    """Events with more than one job on a channel."""
    duplicates_inbox: int = 0
    duplicates_mail: int = 0
    duplicates_push: int = 0
    unflagged: int = 0
    """Jobs of which more than one copy went out and whose last attempt does not say that it may be a duplicate."""
    untold: int = 0
    """Jobs of which more copies went out than there are attempts."""
    ledger_mistakes: int = 0
    complaints: list[str] = field(default_factory=list)
    """The first of what went wrong, in words."""

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept."""
        allowed = {"duplicates_mail", "duplicates_push", "complaints"}
        return not any(count for name, count in asdict(self).items() if name not in allowed)

    def count(self, channel: Channel, copies: int, attempt_count: int, *, flagged: bool) -> None:
        """Take in how many ``copies`` of one job there are."""
        more = max(copies - 1, 0)
        if channel is Channel.INAPP:
            self.duplicates_inbox += more
            return
        if channel is Channel.EMAIL:
            self.duplicates_mail += more
        else:
            self.duplicates_push += more
        self.unflagged += more > 0 and not flagged
        self.untold += copies > attempt_count

    def complain(self, text: str) -> None:
        """Remember ``text``, unless there is enough already."""
        if len(self.complaints) < 10:
            self.complaints.append(text)


async def judge(database: Database, installation: Installation, accepted: Collection[EventId]) -> Findings:
    """What there is to say of everything that was accepted, now that all of it is final."""
    findings, reached = Findings(), dict[EventId, set[Channel]]()
    async with database.hot() as pg:
        jobs = await pg.fetch(JOBS)
    taken = _taken(installation)
    for job in jobs:
        event_id, channel = EventId(job["event_id"]), Channel(job["channel"])
        copies = job["entry_count"] if channel is Channel.INAPP else taken[job_uuid(event_id, channel).hex]
        if job["status"] == "SENT" and copies > 0:
            reached.setdefault(event_id, set()).add(channel)
        elif event_id in accepted:
            findings.complain(f"{event_id} {channel}: {job['status']} {job['reason']}, {copies} copies")
        findings.count(channel, copies, job["attempt_count"], flagged=job["flagged"])
    findings.lost = sum(reached.get(event_id, set()) != CHANNELS for event_id in accepted)
    findings.twice = len(jobs) - len({(job["event_id"], job["channel"]) for job in jobs})
    mistakes = await ledger_mistakes(database)
    findings.ledger_mistakes = len(mistakes)
    for mistake in mistakes:
        findings.complain(f"the ledger and the tables differ: {mistake}")
    return findings


def _taken(installation: Installation) -> Counter[str]:
    """How many copies the peers took, by the digits of the job: Message-ID and tag are made of them."""
    mails = [mail.message_id.strip("<>").partition("@")[0] for mail in installation.sink.mails]
    pushes = [push.message["android"]["notification"]["tag"] for push in installation.fcm.newest(MOST_REMEMBERED)]
    return Counter(mails + pushes)
