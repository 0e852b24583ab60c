"""The engine under fuzz for some seconds; ``make fuzz`` is the long version."""

import secrets

from shared.store.database import Database
from tests.fakes.postgres import Databases
from tests.prove.fuzz import POOL_SIZE, fuzz_seed

CLAIMS = 2000


async def test_fourteen_workers_that_die_dawdle_and_repeat_themselves_do_no_harm(databases: Databases) -> None:
    seed = secrets.token_hex(4)
    async with databases.fresh() as url:
        database = Database(url, pool_size=POOL_SIZE)
        try:
            one = await fuzz_seed(database, seed, CLAIMS, print)
        finally:
            await database.close()
    assert one.claims >= CLAIMS
    assert not one.harm, f'{one.harm}; again with: make fuzz ARGS="--seed {seed} --claims {CLAIMS}"'
