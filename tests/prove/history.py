"""Every change of a job's row, written down by the database itself: what really happened, and in which order."""

from dataclasses import dataclass

from shared.store.database import Database, HotConnection

# The order of ``number`` is the order of a row's changes: it is drawn while the row is locked.
RECORD = """
CREATE TABLE history (
  number bigint GENERATED ALWAYS AS IDENTITY,
  wrote text NOT NULL,
  job_id bigint NOT NULL,
  channel text NOT NULL,
  max_attempts int NOT NULL,
  was text NOT NULL, became text NOT NULL,
  was_reason text NOT NULL, became_reason text NOT NULL,
  was_seq int NOT NULL, became_seq int NOT NULL,
  was_reported int NOT NULL, became_reported int NOT NULL,
  was_attempts int NOT NULL, became_attempts int NOT NULL,
  was_held boolean NOT NULL
);
CREATE FUNCTION write_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO history (wrote, job_id, channel, max_attempts, was, became, was_reason, became_reason, was_seq,
                       became_seq, was_reported, became_reported, was_attempts, became_attempts, was_held)
  VALUES (pg_current_xact_id()::text, OLD.job_id, OLD.channel, OLD.max_attempts, OLD.status, NEW.status, OLD.reason,
          NEW.reason, OLD.claim_seq, NEW.claim_seq, OLD.reported_seq, NEW.reported_seq, OLD.attempts, NEW.attempts,
          OLD.status = 'PENDING' AND OLD.claimed_until >= now());
  RETURN NULL;
END $$;
CREATE TRIGGER history AFTER UPDATE ON outgoing FOR EACH ROW EXECUTE FUNCTION write_history();
"""

READ = """
SELECT wrote, job_id, channel, max_attempts, was, became, was_reason, became_reason, was_seq, became_seq, was_reported,
       became_reported, was_attempts, became_attempts, was_held
FROM history
ORDER BY number
"""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one job's row.

    ``wrote`` is the transaction. ``was_held``: a lease lasted, by the clock of the database.
    """

    wrote: str
    job_id: int
    channel: str
    max_attempts: int
    was: str
    became: str
    was_reason: str
    became_reason: str
    was_seq: int
    became_seq: int
    was_reported: int
    became_reported: int
    was_attempts: int
    became_attempts: int
    was_held: bool

    @property
    def is_claim(self) -> bool:
        """Whether a worker took the job."""
        return self.was == self.became == "PENDING" and self.became_seq > self.was_seq

    @property
    def ends_in_one(self) -> bool:
        """Whether the job was claimed and finished by one statement, as in-app's are."""
        return self.became_seq == self.was_seq + 1 == self.became_reported and self.became in {"SENT", "FAILED"}

    @property
    def is_replay(self) -> bool:
        """Whether a finished job was made to begin anew."""
        return self.was != "PENDING" and self.became == "PENDING"


async def record_history(database: Database) -> None:
    """Have every change written down from now on."""
    async with database.hot() as pg:
        await pg.execute(RECORD)


async def read_history(database: Database) -> list[Change]:
    """Every change so far, those of one job in their order."""
    async with database.hot() as pg:
        return [Change(*row.values()) for row in await pg.fetch(READ)]


async def this_transaction(pg: HotConnection) -> str:
    """The name under which the changes of the running transaction stand in the history."""
    return str(await pg.fetchval("SELECT pg_current_xact_id()::text"))
