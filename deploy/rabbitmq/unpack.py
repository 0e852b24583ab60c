"""RabbitMQ out of Debian's or Ubuntu's own packages, unpacked into a folder and never installed."""

import re
import sys
from pathlib import Path

from deploy.packages import LIBRARY_PACKAGE, Apt, missing_libraries
from deploy.packages import fetch as fetch_packages
from shared.errors import CannotStart

_ROOT_LINE = re.compile(r"^(\s*)ROOTDIR=.*$", re.MULTILINE)
_OWN_ROOT = r'\1ROOTDIR="$(cd "$(dirname "$0")/.." && pwd)"'
_ERLANG_PACKAGE = re.compile(r"^erlang-[a-z0-9-]+$")


def fetch(home: Path) -> Path:
    """The root of the unpacked packages, ``home/rabbitmq``; downloaded when missing, whole or not at all."""
    return fetch_packages(home / "rabbitmq", "RabbitMQ", _unpack_into)


def _unpack_into(scratch: Path) -> Path:
    print("Downloading RabbitMQ's packages (about 35 MB, once)", file=sys.stderr, flush=True)
    apt, root = Apt(scratch / "apt", "RabbitMQ"), scratch / "root"
    apt.update()
    wanted = apt.needed_by(["rabbitmq-server"], _ERLANG_PACKAGE)
    if not wanted:
        raise CannotStart("apt knows no package rabbitmq-server: its sources are missing, or unreachable")
    apt.unpack(["rabbitmq-server", *wanted], root)
    if _missing_libraries(root):
        apt.unpack(apt.needed_by(wanted, LIBRARY_PACKAGE), root)
        if missing := _missing_libraries(root):
            raise CannotStart(f"RabbitMQ needs {', '.join(sorted(missing))}, which its packages do not bring")
    erl = root / "usr/lib/erlang/bin/erl"
    erl.write_text(_ROOT_LINE.sub(_OWN_ROOT, erl.read_text()))
    return root


def _missing_libraries(root: Path) -> set[str]:
    erlang = root / "usr/lib/erlang"
    patterns = ("erts-*/bin/*", "lib/*/priv/bin/*", "lib/*/priv/**/*.so")
    return missing_libraries(root, [binary for pattern in patterns for binary in erlang.glob(pattern)])
