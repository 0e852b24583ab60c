"""`waybill up` ends with whoever started it: a killed make must not leave a product running."""

import asyncio
import os
import signal
from collections.abc import Mapping

from shared.lifecycle import Part, stopped_within
from shared.logs import get_logger

log = get_logger()

LOOK_SECONDS = 0.5


def parent_watch() -> Part:
    """A part that sets ``stop`` once the process that started us has ended (portable, and true at kill -9)."""
    parent = os.getppid()

    async def run(stop: asyncio.Event) -> None:
        while not await stopped_within(stop, LOOK_SECONDS):
            if os.getppid() != parent:
                log.warning("parent.ended", parent_pid=parent)
                stop.set()

    return Part("parent-watch", run)


def is_to_outlive_parent(environ: Mapping[str, str]) -> bool:
    """Whether we were started with nohup, by hand: make's children never outlive make."""
    return signal.getsignal(signal.SIGHUP) == signal.SIG_IGN and "MAKELEVEL" not in environ
