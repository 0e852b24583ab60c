"""Firebase Cloud Messaging: one message to one token in, one verdict out, whatever happens."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from services.push.client import EXCHANGE, Exchange
from services.push.connections import Connections
from services.push.message import Letter
from shared.serviceaccount import ServiceAccount
from shared.verdict import NoVerdict, Rejected, SenderBlocked, Verdict

if TYPE_CHECKING:
    from services.push.firebase import Project

MOST_TO_PHONE = 4096
"""In bytes. What Firebase wraps a message in counts too, and differs from platform to platform: only what is larger
without any of it is surely too large, near the limit Firebase's answer decides."""
MOST_PROJECTS = 256
"""How many accounts are kept ready; one that was replaced is pushed out by later ones."""


class FcmSender:
    """Sends for any number of projects over at most ``connections`` connections; a message has ``within``."""

    def __init__(self, *, connections: int, within: timedelta, base_url: str | None = None) -> None:
        self._connections = Connections(connections, within.total_seconds())
        self._base_url = base_url
        self._projects: OrderedDict[str, asyncio.Task[Project]] = OrderedDict()
        self._dropping: set[asyncio.Task[None]] = set()

    async def send(self, account: ServiceAccount, token: str, letter: Letter, leaving: Callable[[], None]) -> Verdict:
        """What became of one message; ``leaving`` is called before its body leaves."""
        try:
            project = await asyncio.shield(self._project(account))
        except (ValueError, TypeError):
            return SenderBlocked("sender", code="service_account", error="the account's private key signs nothing")
        exchange = Exchange(leaving)
        # Every message has a task of its own, so nobody else sees it.
        EXCHANGE.set(exchange)
        try:
            await project.send(token, letter)
        except ValueError as exc:
            return Rejected(code="no_message", error=str(exc))
        return exchange.verdict or NoVerdict(handed_over=exchange.has_left, code="no_answer")

    async def close(self) -> None:
        """Close every connection and every project; what is sent later opens them anew."""
        while self._projects:
            await self._drop(self._projects.popitem()[1])
        await self._connections.close()

    def _project(self, account: ServiceAccount) -> "asyncio.Task[Project]":
        known = self._projects.get(account.fingerprint)
        if known is None or (known.done() and (known.cancelled() or known.exception() is not None)):
            known = asyncio.create_task(asyncio.to_thread(_open, account, self._connections, self._base_url))
            self._projects[account.fingerprint] = known
        self._projects.move_to_end(account.fingerprint)
        if len(self._projects) > MOST_PROJECTS:
            dropping = asyncio.create_task(self._drop(self._projects.popitem(last=False)[1]))
            self._dropping.add(dropping)
            dropping.add_done_callback(self._dropping.discard)
        return known

    async def _drop(self, opening: "asyncio.Task[Project]") -> None:
        await asyncio.wait({opening})
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().access.close()
            await asyncio.to_thread(opening.result().close)


def load() -> None:
    """Import firebase-admin now: most of a second, to be spent in a thread and before the first message."""
    import services.push.firebase  # noqa: F401, PLC0415, 41 MiB and most of a second: loaded in a thread, once


def _open(account: ServiceAccount, connections: Connections, base_url: str | None) -> "Project":
    from services.push.firebase import Project  # noqa: PLC0415 - 41 MiB and most of a second: loaded in a thread, once

    return Project(account, connections, base_url)
