"""Free TCP ports for servers that this process brings along."""

import random
import socket

# Below every system's range for outgoing connections: a client that keeps knocking at a port of that range while its
# server is down can be given that very port by the kernel, connect to itself, and keep the server from coming back.
_FIRST, _LAST = 20_000, 32_000
_TRIES = 200


def free_ports(count: int) -> list[int]:
    """Different TCP ports of 127.0.0.1 that nobody has at this moment."""
    found: set[int] = set()
    for _ in range(_TRIES):
        if len(found) == count:
            return list(found)
        port = random.randint(_FIRST, _LAST)  # noqa: S311 - to stay out of each other's way, not a secret
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.add(port)
    raise OSError(f"found no {count} free ports between {_FIRST} and {_LAST}")
