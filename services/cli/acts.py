"""Who did what: one log line for each thing that an operator's command has changed."""

import json
import os
import pwd
import socket
import sys
from datetime import UTC, datetime

from shared.web.instant import write_instant


def record(act: str, **fields: object) -> None:
    """Log ``operator.<act>`` with who did it, on standard error, for whatever keeps it (a CI job, cron, a container).

    A terminal is spared it: whoever sits there has just done it. ``fields`` have no address and no key in them.
    """
    if sys.stderr is None or sys.stderr.isatty():
        return
    line = {"event": f"operator.{act}", "by": operator(), **fields, "level": "info"}
    print(json.dumps({**line, "timestamp": write_instant(datetime.now(UTC))}), file=sys.stderr, flush=True)


def operator() -> str:
    """Who runs this command, as far as the machine knows: ``ada@ops1``, the one who called sudo rather than root."""
    return f"{os.environ.get('SUDO_USER') or _user()}@{socket.gethostname()}"


def _user() -> str:
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        # A container's user need not have a name.
        return str(uid)
