"""The image's health check: asks this container's own process for an admin page, and ends with 1 unless it is well.

    python probe.py /livez      the loops go round
    python probe.py /readyz     Postgres and the schema are there, too

Standard library only, and little of it: an engine starts it every few seconds.
"""

import http.client
import os
import sys
from collections.abc import Mapping

TIMEOUT_SECONDS = 4
"""Longer than the page takes for its own questions, shorter than the engine waits for this program."""
_EVERYWHERE = {"", "0.0.0.0", "::"}  # noqa: S104 - compared with, not listened on


def address(environ: Mapping[str, str]) -> tuple[str, int]:
    """Where the process that was started with ``environ`` serves its admin pages."""
    bind = environ.get("WAYBILL_BIND", "")
    return "127.0.0.1" if bind in _EVERYWHERE else bind, int(environ.get("WAYBILL_ADMIN_PORT") or 9090)


def main(path: str) -> int:
    """Print what the page says, for the engine's record; 0 when it says that all is well."""
    host, port = address(os.environ)
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        print(answer.read().decode(errors="replace"))
    except (OSError, http.client.HTTPException) as exc:
        print(f"no answer from {host}:{port}: {exc}")
        return 1
    return 0 if answer.status == http.client.OK else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
