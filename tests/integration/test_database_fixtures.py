"""The suite's own databases: migrated, separate, and gone afterwards."""

import asyncpg

from tests.fakes.postgres import Databases


async def test_a_fresh_database_has_the_schema_and_no_rows(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        assert await connection.fetchval("SELECT count(*) FROM events") == 0
    finally:
        await connection.close()


async def test_databases_of_two_tests_know_nothing_of_each_other(databases: Databases) -> None:
    async with databases.fresh() as one, databases.fresh() as other:
        first, second = await asyncpg.connect(one), await asyncpg.connect(other)
        try:
            await first.execute("CREATE TABLE only_here (n int)")
            assert await first.fetchval("SELECT to_regclass('only_here')::text") == "only_here"
            assert await second.fetchval("SELECT to_regclass('only_here')::text") is None
        finally:
            await first.close()
            await second.close()


async def test_a_database_is_dropped_even_when_its_test_left_connections_open(databases: Databases) -> None:
    async with databases.fresh() as url:
        forgotten = await asyncpg.connect(url)
        name = await forgotten.fetchval("SELECT current_database()")
    async with databases.fresh() as url:
        connection = await asyncpg.connect(url)
        try:
            found = await connection.fetchval("SELECT count(*) FROM pg_database WHERE datname = $1", name)
            assert found == 0
        finally:
            await connection.close()
    forgotten.terminate()
