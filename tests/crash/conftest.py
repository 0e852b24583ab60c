"""One installation for all tests of a module: they kill its processes, and start them again."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from deploy.rabbitmq.management import Management
from deploy.rabbitmq.node import RabbitNode
from tests.fakes.postgres import Databases
from tests.fakes.rabbit import fresh_vhost
from tests.fakes.wired import Wired, wired_installation


@pytest.fixture(scope="module")
def vhost_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The AMQP URL of a vhost of the module's own."""
    if (given := os.environ.get("WAYBILL_TEST_AMQP_URL")) is not None:
        with fresh_vhost(Management.beside(given), given) as url:
            yield url
        return
    node: RabbitNode = request.getfixturevalue("rabbit")
    node.thaw()
    node.start()
    with fresh_vhost(node.management, node.url) as url:
        yield url


@pytest.fixture(scope="module")
async def standing(
    request: pytest.FixtureRequest, databases: Databases, vhost_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Wired]:
    """The module's installation; its ``SETTINGS``, where it has some, come on top of ours."""
    settings, folder = getattr(request.module, "SETTINGS", {}), tmp_path_factory.mktemp("installation")
    async with (
        databases.fresh() as database_url,
        wired_installation(database_url, vhost_url, settings, folder) as wired,
    ):
        yield wired


@pytest.fixture
async def wired(standing: Wired) -> AsyncIterator[Wired]:
    """The module's installation, every service of it running."""
    standing.begin()
    yield standing
    await standing.bring_back()
