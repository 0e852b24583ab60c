"""The ports `waybill up` listens on: all looked at before anything starts, a busy one named with its owner."""

import errno
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.cli.exits import CommandFailed
from services.cli.owner import owner_of_port
from shared.settings import PREFIX


@dataclass(frozen=True, slots=True)
class WantedPort:
    """A port and the setting that chose it; 0 stands for any free one."""

    setting: str
    port: int

    @property
    def variable(self) -> str:
        """The environment variable that moves it."""
        return PREFIX + self.setting


def require_free(host: str, wanted: Sequence[WantedPort]) -> None:
    """CommandFailed with a line for every port that cannot be listened on, and what mends it."""
    mistakes = [*_chosen_twice(wanted)]
    for one in wanted:
        if one.port and (cause := _refusal(host, one.port)) is not None:
            mistakes.append(_say(host, one, cause, {other.port for other in wanted}))  # noqa: PERF401 - the loop reads better
    if mistakes:
        raise CommandFailed("\n".join(mistakes))


def _chosen_twice(wanted: Sequence[WantedPort]) -> list[str]:
    by_port: dict[int, list[str]] = {}
    for one in wanted:
        if one.port:
            by_port.setdefault(one.port, []).append(one.variable)
    return [f"{' and '.join(names)} are both {port}" for port, names in by_port.items() if len(names) > 1]


def _refusal(host: str, port: int) -> OSError | None:
    """Why nobody can listen there now, or None."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # As the servers themselves do: connections that are still closing are in nobody's way.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as exc:
        return exc
    return None


def _say(host: str, one: WantedPort, cause: OSError, taken: set[int]) -> str:
    if cause.errno != errno.EADDRINUSE:
        return f"{one.variable}: cannot listen on {host}:{one.port}: {cause.strerror or cause}"
    owner = owner_of_port(one.port)
    by = f"process {owner.pid} ({owner.command})" if owner is not None else "another process, of another user"
    other = _free_neighbour(host, one.port, taken)
    return f"port {one.port} is taken by {by}: stop it, or choose another with {one.variable}={other}"


def _free_neighbour(host: str, port: int, taken: set[int]) -> int:
    """A free port that is easy to remember beside ``port``."""
    for candidate in range(port + 10, 65536, 10):
        if candidate not in taken and _refusal(host, candidate) is None:
            return candidate
    return 0


def urls(host: str, ports: Mapping[str, int]) -> dict[str, str]:
    """The address of each port for somebody on this machine."""
    return {name: f"http://{host}:{port}" for name, port in ports.items()}
