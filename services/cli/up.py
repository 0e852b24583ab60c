"""`waybill up`: everything on this machine in one process, with sinks in place of every provider."""

import asyncio
import os
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from services.cli import banner
from services.cli.compose import ALL, settings_classes
from services.cli.home import make_home, only_one
from services.cli.parent import is_to_outlive_parent, parent_watch
from services.cli.ports import WantedPort, require_free
from services.cli.stage import ADMIN_PORT, Stage, UpSettings, raise_stage
from services.cli.upfile import UpFile
from shared import logs
from shared.lifecycle import install_signal_handlers, run_loop, run_parts
from shared.settings import PREFIX, check_environment, load_settings

T = TypeVar("T")

MADE_HERE = ("DATABASE_URL", "MASTER_KEYS", "OPERATOR_TOKEN")
"""Settings that others need and `up` makes itself."""
ANY_RELAY = {f"{PREFIX}SMTP_URL": "smtp://127.0.0.1"}
"""Stands for the mail catcher while the settings are checked: with it, all that email reads is checked."""
GRACE_SECONDS = 5.0
"""What parts get to finish: less than elsewhere, for Postgres has to be shut down within the same 10 s."""


def up() -> None:
    """Run until a signal ends it. Everything that can be wrong beforehand is said beforehand, all at once."""
    check_environment(ANY_RELAY | dict(os.environ), [UpSettings, *settings_classes(ALL)], MADE_HERE)
    settings = load_settings(UpSettings)
    home = make_home(settings.data_dir)
    with only_one(home):
        UpFile(home).remove()  # of one that was killed
        require_free(settings.host, _wanted_ports(settings))
        # Quiet until it is ready: what happens until then is told in a few lines of its own.
        logs.configure(settings.logs_json(), "warning" if settings.log_level == "info" else settings.log_level)
        run_loop(_up(settings, home))


def _wanted_ports(settings: UpSettings) -> list[WantedPort]:
    wanted = [
        WantedPort("PORT", settings.port),
        WantedPort("INBOX_PORT", settings.inbox_port),
        WantedPort("EMAIL_PORT", settings.email_page_port),
        WantedPort("SMTP_SINK_PORT", settings.smtp_sink_port),
    ]
    if settings.bounce_port is not None:
        wanted.append(WantedPort("BOUNCE_PORT", settings.bounce_port))
    return [*wanted, WantedPort("ADMIN_PORT", settings.admin_port)] if os.environ.get(ADMIN_PORT) else wanted


async def _up(settings: UpSettings, home: Path) -> None:
    stop = asyncio.Event()
    install_signal_handlers(stop)
    watch = [] if is_to_outlive_parent(os.environ) else [parent_watch()]
    watching = asyncio.create_task(run_parts(watch, stop))
    try:
        async with AsyncExitStack() as stack:
            stage = await _unless(stop, raise_stage(stack, settings, home))
            if stage is not None:
                await _play(stage, settings, UpFile(home), stop)
    finally:
        stop.set()
        await watching


async def _play(stage: Stage, settings: UpSettings, file: UpFile, stop: asyncio.Event) -> None:
    running = asyncio.create_task(run_parts(stage.parts, stop, GRACE_SECONDS))
    try:
        if await _unless(stop, stage.listening()):
            file.write(stage.told)
            stage.curtain.is_open = True
            for line in banner.ready_lines(stage.told, file.path):
                banner.say(line)
            logs.configure(settings.logs_json(), settings.log_level)
            await stop.wait()
    finally:
        file.remove()
        stop.set()
        await running


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What ``work`` returns, or None when ``stop`` came first and it was cut off."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if working.done():
        return working.result()
    working.cancel()
    await asyncio.wait({working})
    return None
