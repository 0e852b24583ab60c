"""Firebase refusing, then silent, then back, under traffic; ``make prove`` has the long version."""

from pathlib import Path

from tests.fakes.postgres import Databases
from tests.prove.outage import Outage, fcm_outage

SHORT = Outage(
    seconds=6,
    pace=10,
    around=1,
    to_the_last=False,
    settings={"PUSH_LEASE": "9s", "PUSH_ATTEMPT_TIMEOUT": "3s", "LEASE_MARGIN": "1s", "UNANSWERED_BACKOFF": "1s"},
)


async def test_what_comes_while_firebase_is_away_rings_every_phone_once_and_costs_nothing(
    databases: Databases, amqp_url: str, tmp_path: Path
) -> None:
    async with databases.fresh() as database_url:
        survived = await fcm_outage(database_url, amqp_url, tmp_path, SHORT, print)
    assert survived.jobs > SHORT.seconds * SHORT.pace / 2
    assert survived.posts > survived.jobs
    assert survived.is_good, survived
