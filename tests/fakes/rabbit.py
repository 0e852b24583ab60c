"""The suite's own RabbitMQ: one private node, one fresh vhost per test."""

import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from deploy.rabbitmq.find import find_or_fetch
from deploy.rabbitmq.management import Management
from deploy.rabbitmq.node import RabbitNode
from shared import flock

_PREFIX = "test-rabbitmq-"
_numbers = itertools.count(1)


@contextmanager
def throw_away_node(home: Path) -> Iterator[RabbitNode]:
    """A node that lives as long as the block; what killed runs left behind is removed first."""
    home.mkdir(mode=0o711, exist_ok=True)
    for folder in home.glob(f"{_PREFIX}*"):
        if not flock.is_taken(folder / "node.lock"):
            shutil.rmtree(folder, ignore_errors=True)
    folder = home / f"{_PREFIX}{os.getpid()}"
    folder.mkdir()
    held = flock.take(folder / "node.lock", 0)
    # A folder below the lock's: a test that wipes the node must not wipe the lock.
    node = RabbitNode(find_or_fetch(home), folder / "node")
    try:
        node.start()
        yield node
    finally:
        node.wipe()
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


@contextmanager
def fresh_vhost(management: Management, amqp_url: str) -> Iterator[str]:
    """The AMQP URL of a vhost nobody used before, on the broker of ``amqp_url``."""
    name = f"t{os.getpid()}-{next(_numbers)}"
    management.create_vhost(name)
    try:
        yield urlsplit(amqp_url)._replace(path=f"/{name}").geturl()
    finally:
        management.delete_vhost(name)
