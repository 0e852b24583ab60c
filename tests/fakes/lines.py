"""The connections that a peer was asked something on: leaks show here, whatever the other side believes."""

import asyncio

from aiohttp import web


class Lines:
    """Connections by what came over them; one over which nothing came is not known."""

    def __init__(self) -> None:
        self.most_at_once = 0
        self._seen: set[asyncio.BaseTransport] = set()

    def note(self, request: web.Request) -> None:
        """Something came over the connection of ``request``."""
        if request.transport is not None:
            self._seen.add(request.transport)
        self.most_at_once = max(self.most_at_once, self.open_count)

    @property
    def open_count(self) -> int:
        """How many are open now."""
        self._seen = {one for one in self._seen if not one.is_closing()}
        return len(self._seen)
