"""Finding a RabbitMQ the tests can run as a node of their own: on this machine, else unpacked from its packages."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.packages import library_folders, possible
from deploy.rabbitmq import unpack
from shared.errors import CannotStart

FORCE_UNPACK = "WAYBILL_TEST_RABBITMQ"
_INSTALLED = (
    "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin",  # Debian, Red Hat: behind a wrapper that wants to be root
    "/opt/homebrew/opt/rabbitmq/sbin",
    "/usr/local/opt/rabbitmq/sbin",
    "/opt/rabbitmq/sbin",
)
_ERLANG = ("/usr/lib/erlang/bin", "/opt/homebrew/bin", "/usr/local/bin", "/opt/erlang/lib/erlang/bin")
ADVICE = (
    "There is no RabbitMQ for the tests: install it (Debian, Ubuntu: apt-get install rabbitmq-server; macOS:"
    " brew install rabbitmq), or run one in Docker (docker run --rm -p 5672:5672 -p 15672:15672"
    " rabbitmq:4-management) and set WAYBILL_TEST_AMQP_URL=amqp://guest:guest@127.0.0.1:5672/"
)


@dataclass(frozen=True, slots=True)
class Distribution:
    """A RabbitMQ to run: the folder of its scripts, the folder with ``erl``, and libraries it brings along."""

    scripts: Path
    erlang_bin: Path
    libraries: tuple[Path, ...] = ()


def find_or_fetch(home: Path) -> Distribution:
    """A RabbitMQ of this machine, else one unpacked into ``home/rabbitmq`` (which is kept for the next time).

    Nothing is ever installed. Raises CannotStart saying what to install when there is no way.
    """
    if os.environ.get(FORCE_UNPACK) != "unpack" and (found := _installed()) is not None:
        return found
    if not possible():
        raise CannotStart(ADVICE)
    root = unpack.fetch(home)
    scripts = next(root.glob("usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin"))
    return Distribution(scripts, root / "usr/lib/erlang/bin", library_folders(root))


def _installed() -> Distribution | None:
    erlang = _erlang_bin()
    for scripts in _script_folders():
        # The real script has its environment beside it; a wrapper, which would change the user, does not.
        if erlang is not None and (scripts / "rabbitmq-env").is_file() and (scripts / "rabbitmq-server").is_file():
            return Distribution(scripts, erlang)
    return None


def _script_folders() -> Iterator[Path]:
    for pattern in _INSTALLED:
        yield from sorted(Path("/").glob(pattern.lstrip("/")), reverse=True)
    if (on_path := shutil.which("rabbitmq-server")) is not None:
        yield Path(on_path).resolve().parent


def _erlang_bin() -> Path | None:
    on_path = shutil.which("erl")
    folders = [Path(folder) for folder in _ERLANG] if on_path is None else [Path(on_path).parent]
    return next((folder for folder in folders if (folder / "erl").is_file()), None)
