"""What every test may ask for: fresh databases on the suite's own Postgres, and vhosts on its own RabbitMQ."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
import uvloop

from deploy.rabbitmq.management import Management
from deploy.rabbitmq.node import RabbitNode
from shared.store.database import Database
from tests.fakes.postgres import Databases, throw_away_server
from tests.fakes.rabbit import fresh_vhost, throw_away_node

GIVEN_BROKER = "WAYBILL_TEST_AMQP_URL"
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


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The pool on this test's own database."""
    database = Database(database_url, pool_size=8)
    yield database
    await database.close()


@pytest.fixture(scope="session")
def rabbit(request: pytest.FixtureRequest) -> Iterator[RabbitNode]:
    """The suite's own RabbitMQ node, to be killed and frozen at will."""
    if GIVEN_BROKER in os.environ:
        pytest.skip(f"the broker of {GIVEN_BROKER} is not ours to stop")
    # The first time this downloads: nobody should look at a silent terminal meanwhile.
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with ExitStack() as node_life:
        with capture.global_and_fixture_disabled():
            node = node_life.enter_context(throw_away_node(ROOT / ".waybill"))
        yield node


@pytest.fixture
def amqp_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The AMQP URL of a vhost of this test's own, on a broker that is up."""
    if (given := os.environ.get(GIVEN_BROKER)) is not None:
        with fresh_vhost(Management.beside(given), given) as url:
            yield url
        return
    node: RabbitNode = request.getfixturevalue("rabbit")
    _bring_back(node)
    with fresh_vhost(node.management, node.url) as url:
        yield url
        _bring_back(node)  # a test that failed may have left it dead or frozen


def _bring_back(node: RabbitNode) -> None:
    node.thaw()
    node.start()


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Tests run on the loop the product itself runs on."""
    return {"uvloop": uvloop.new_event_loop}
