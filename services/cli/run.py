"""`waybill run`: one service (or all) on the Postgres and RabbitMQ of the settings, until it is told to stop."""

import asyncio
import os
from collections.abc import Mapping, Sequence

from services.cli.compose import build_parts, settings_classes
from services.cli.ground import Ground, await_postgres, stand_on
from shared import logs
from shared.lifecycle import Part, install_signal_handlers, run_loop, run_parts
from shared.logs import get_logger
from shared.settings import ProcessSettings, check_environment, load_settings
from shared.web.admin import admin_app
from shared.web.server import HttpPart, http_part

log = get_logger()

ANYWHERE = "0.0.0.0"  # noqa: S104 - a service is there to be reached; WAYBILL_BIND narrows it


def run(service: str) -> None:
    """Run ``service`` until a signal ends it. SettingsError and CannotStart come before anything runs."""
    check_environment(os.environ, settings_classes(service))
    settings = load_settings(ProcessSettings)
    logs.configure(settings.logs_json(), settings.log_level)
    run_loop(_run(service, settings, os.environ))


async def _run(service: str, settings: ProcessSettings, environ: Mapping[str, str]) -> None:
    stop = asyncio.Event()
    install_signal_handlers(stop)
    async with stand_on(environ, name=f"waybill {service}", host=settings.bind or ANYWHERE) as ground:
        parts = [*ground.parts(), *build_parts(service, ground)]
        admin = admin_part(ground, settings.admin_port, parts)
        # The admin pages say what is awaited while nothing else runs yet.
        telling = asyncio.create_task(run_parts([admin], stop))
        try:
            await _serve(service, ground, parts, stop)
        finally:
            stop.set()
            await telling


async def _serve(service: str, ground: Ground, parts: Sequence[Part], stop: asyncio.Event) -> None:
    if not await await_postgres(ground, stop):
        return
    log.info("service.started", service=service, worker=ground.worker_name())
    await run_parts(parts, stop)
    log.info("service.stopped", service=service)


def admin_part(ground: Ground, port: int, parts: Sequence[Part]) -> Part:
    """The admin pages. /readyz asks Postgres and the HTTP of ``parts``, never the broker: messages only hurry."""

    async def check_listening() -> str | None:
        silent = [part.name for part in parts if isinstance(part, HttpPart) and not part.answering.is_set()]
        return f"not listening yet: {', '.join(silent)}" if silent else None

    checks = {"postgres": ground.check_schema, "http": check_listening}
    return http_part("admin", admin_app(checks, ground.hearts), ground.host, port)
