"""Every process killed in turn while products post; ``make prove`` has the long version."""

from pathlib import Path

from tests.fakes.installation import SERVICES
from tests.fakes.postgres import Databases
from tests.prove.storm import Weather, storm

SHORT = Weather(seconds=11, pace=10, kill_every=2, processes=SERVICES)


async def test_what_was_accepted_in_a_storm_of_kills_reaches_everybody_and_every_repeat_is_flagged(
    databases: Databases, amqp_url: str, tmp_path: Path
) -> None:
    async with databases.fresh() as database_url:
        survived = await storm(database_url, amqp_url, tmp_path, SHORT, print)
    assert survived.log.given_up == 0
    assert len(survived.log.accepted) == survived.log.event_count == SHORT.seconds * SHORT.pace
    assert survived.log.kills > 0
    assert survived.findings.is_good, survived.findings
