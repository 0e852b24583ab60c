"""What every test may ask for: fresh databases on the suite's own Postgres, and vhosts on its own RabbitMQ."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.fakes.postgres import Databases, throw_away_server

ROOT = Path(__file__).resolve().parents[1]

# The suite never sees the settings of a real installation, least of all WAYBILL_DATABASE_URL.
for _name in [name for name in os.environ if name.startswith("WAYBILL_")]:
    if not _name.startswith("WAYBILL_TEST_"):
        del os.environ[_name]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of the suite's own Postgres."""
    with throw_away_server(ROOT / ".waybill") as url:
        yield url


@pytest.fixture(scope="session")
async def databases(postgres_server: str) -> Databases:
    """Databases made on the suite's Postgres, whose migrated template exists."""
    made = Databases(postgres_server)
    await made.make_template()
    return made


@pytest.fixture
async def database_url(databases: Databases) -> AsyncIterator[str]:
    """The URL of a migrated database of this test's own."""
    async with databases.fresh() as url:
        yield url


@pytest.fixture
async def empty_database_url(databases: Databases) -> AsyncIterator[str]:
    """The URL of a database of this test's own with no schema in it."""
    async with databases.fresh(template="template0") as url:
        yield url
